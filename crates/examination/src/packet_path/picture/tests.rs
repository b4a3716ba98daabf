//! Tests of the picture: well-formed for every machine, nothing over one another, red only where something is wrong.

use chart::testing::elements;
use topology::{Topology, sample};

use super::*;
use crate::packet_path::tuned;

fn machines() -> impl Iterator<Item = (&'static str, Survey)> {
    sample::NAMES.into_iter().map(|name| (name, Survey::new(sample::topology(name).unwrap())))
}

/// The base lines of texts that begin at one place, by that place.
fn base_lines(svg: &str) -> std::collections::BTreeMap<String, Vec<f64>> {
    let mut found: std::collections::BTreeMap<String, Vec<f64>> = std::collections::BTreeMap::new();
    for part in svg.split("<text x=\"").skip(1) {
        let (x, rest) = part.split_once("\" y=\"").unwrap();
        let (y, _) = rest.split_once('"').unwrap();
        found.entry(x.to_owned()).or_default().push(y.parse().unwrap());
    }
    found
}

#[test]
fn every_machine_is_drawn_whole() {
    for (name, survey) in machines() {
        for look in [Look::File, Look::Page] {
            let svg = picture(&survey, look);
            elements(&svg).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
            assert_eq!(svg.matches("<g class=\"flow\">").count(), survey.topology.flows.len(), "{name}");
        }
    }
}

#[test]
fn no_text_lies_on_another() {
    for (name, survey) in machines() {
        let svg = picture(&survey, Look::File);
        for (x, mut lines) in base_lines(&svg) {
            lines.sort_by(f64::total_cmp);
            for pair in lines.windows(2) {
                assert!(pair[1] - pair[0] >= 13.0 || pair[1] == pair[0], "{name}: at {x}, {pair:?}");
            }
        }
        let layout = Layout::new(&survey);
        let lowest = base_lines(&svg).into_values().flatten().fold(0.0, f64::max);
        assert!(lowest <= layout.height, "{name}");
    }
}

#[test]
fn what_is_as_it_should_be_is_straight_and_not_red() {
    let survey = Survey::new(tuned());
    let svg = picture(&survey, Look::File);
    // The legend has one red line.
    assert_eq!(svg.matches("line bad").count(), 1, "{svg}");
    assert!(!svg.contains("box bad"));
    let layout = Layout::new(&survey);
    for worker in &layout.workers {
        assert!(layout.cpus.iter().any(|cpu| (cpu.y - worker.y).abs() < 0.01), "{}", worker.text);
    }
}

#[test]
fn collisions_are_red() {
    let survey = Survey::new(sample::cpu72(32));
    let svg = picture(&survey, Look::File);
    let shared = survey.findings.iter().find(|finding| finding.interface.is_some()).unwrap();
    assert_eq!(svg.matches("box bad").count(), shared.queues.len());
    // The flows in shared queues, all 32 workers, and each queue in use that is served off the card's node.
    let in_use: std::collections::BTreeSet<u32> = survey
        .courses
        .iter()
        .filter(|course| survey.topology.flows[course.flow].is_io())
        .filter_map(|course| course.legs[0].queue)
        .collect();
    let interface = survey.topology.interface("eth0").unwrap();
    let is_far = |queue: &&u32| {
        let cpu =
            interface.receive[**queue as usize].interrupt.as_ref().and_then(|interrupt| interrupt.cpu());
        is_off_node(&survey.topology, interface, cpu.unwrap())
    };
    let far = in_use.iter().filter(is_far).count();
    assert_eq!(svg.matches("line bad").count(), 1 + shared.flows.len() + 32 + far);
    // Red lines have a cross, too, for readers who see no red.
    assert_eq!(svg.matches("class=\"cross\"").count(), svg.matches("line bad").count());
}

#[test]
fn lines_of_one_group_do_not_cross_on_their_way_to_the_queues() {
    for (name, survey) in machines() {
        let layout = Layout::new(&survey);
        let head = |y: f64| layout.heads.iter().filter(|head| head.x == columns::FLOW && head.y < y).count();
        for pair in layout.flows.windows(2) {
            let end = |row: &layout::FlowRow| {
                let leg = survey.courses[row.flow].legs.first()?;
                layout.queue(&leg.interface, leg.queue).map(|queue| queue.y)
            };
            let is_one_group = head(pair[0].y) == head(pair[1].y);
            assert!(!is_one_group || end(&pair[0]) <= end(&pair[1]), "{name}");
        }
    }
}

#[test]
fn what_rps_alone_leads_to_a_processor_has_a_line_there() {
    let mut machine = sample::virtio_one_queue();
    for queue in machine.interfaces.iter_mut().flat_map(|interface| &mut interface.receive) {
        (queue.interrupt, queue.rps) = (None, topology::CpuSet::one(1));
    }
    let survey = Survey::new(machine);
    let leg = survey.courses.iter().flat_map(|course| &course.legs).find(|leg| leg.cpu == Some(1)).unwrap();
    let layout = Layout::new(&survey);
    let (from, to) = (layout.queue(&leg.interface, leg.queue).unwrap().y, layout.cpu(1).unwrap());
    let mut wanted = String::new();
    line(&mut wanted, LineKind::Plain.class(), (columns::QUEUE_END, from), (columns::CPU, to));
    assert!(picture(&survey, Look::File).contains(&wanted));
}

#[test]
fn a_page_that_has_the_style_gets_the_picture_without() {
    let survey = Survey::new(tuned());
    let bare = bare_picture(&survey);
    elements(&bare).unwrap();
    assert!(!bare.contains("style") && !bare.contains("class=\"paper\""));
    assert!(picture(&survey, Look::File).ends_with(bare.split_once("</desc>\n").unwrap().1));
}

#[test]
fn no_name_is_markup() {
    let mut machine = sample::bridge();
    machine.flows[0].controller = "<b a=\"1\">&'".to_owned();
    machine.kernel = "</svg><script>".to_owned();
    let svg = picture(&Survey::new(machine), Look::File);
    elements(&svg).unwrap();
    assert!(!svg.contains("<script") && !svg.contains("<b "));
}

#[test]
fn nothing_is_a_picture_too() {
    for machine in [Topology::default(), Topology { flows: Vec::new(), ..sample::two_nodes() }] {
        elements(&picture(&Survey::new(machine), Look::File)).unwrap();
    }
}
