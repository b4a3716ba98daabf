//! The picture of a survey, as SVG: flows on the left, then receive queues, interrupts and processors, workers on the
//! right, and lines between them that are red and crossed where two meet or a way is longer than it had to be. Straight
//! green lines are as they should be. `layout` has the positions.

mod layout;

use std::fmt::Write;

use chart::markup::escaped;
use chart::svg::text::{self, lines, shortened, width};
use chart::svg::{Frame, Look};
use chart::units::plural;
use topology::{Flow, Leg};

use super::findings::{is_elsewhere, is_off_node};
use super::survey::{Survey, name};
use super::words::{chosen, machine};
use layout::{Layout, QueueBox, columns};

/// Style sheet of the picture.
pub const STYLE: &str = include_str!("../picture.css");

/// Processors that a line of "one of these" leads to: more would say nothing.
const GUESSES_MAX: usize = 8;

/// Height and width of the cross on a line that is not as it should be.
const CROSS: f64 = 6.0;

/// Kind of a line; the names are its classes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Good,
    Bad,
    Plain,
    Unused,
}

impl LineKind {
    fn class(self) -> &'static str {
        match self {
            LineKind::Good => "line good",
            LineKind::Bad => "line bad",
            LineKind::Plain => "line",
            LineKind::Unused => "line unused",
        }
    }
}

/// Draws the survey. Its style is in it, nothing is fetched, and nothing runs.
pub fn picture(survey: &Survey, look: Look) -> String {
    drawn(survey, look, Some(STYLE))
}

/// Draws the picture without its style, for a page that has it.
pub fn bare_picture(survey: &Survey) -> String {
    drawn(survey, Look::File, None)
}

fn drawn(survey: &Survey, look: Look, style: Option<&str>) -> String {
    let layout = Layout::new(survey);
    let top = match look {
        Look::File => 0.0,
        Look::Page => layout::TITLES,
    };
    let frame = Frame {
        class: "courses",
        id: "courses",
        title: TITLE,
        description: &summary(survey),
        width: columns::WIDTH,
        height: layout.height - top,
        top,
        scale: Some(1.0),
        style,
    };
    let mut svg = frame.opening();
    if look == Look::File {
        titles(&mut svg, survey);
    }
    legend(&mut svg);
    bands(&mut svg, &layout);
    heads(&mut svg, &layout);
    interrupts(&mut svg, survey, &layout);
    for way in &layout.flows {
        let Some(course) = survey.courses.get(way.flow) else { continue };
        let Some(flow) = survey.topology.flows.get(way.flow) else { continue };
        flow_lines(&mut svg, &layout, way.y, flow, &course.legs);
    }
    boxes(&mut svg, &layout);
    svg.push_str("</svg>\n");
    svg
}

pub const TITLE: &str = "Where NVMe/TCP queues are received and worked on";

/// Returns a summary of the picture in numbers.
pub fn summary(survey: &Survey) -> String {
    let io = survey.topology.flows.iter().filter(|flow| flow.is_io()).count();
    let mut parts = vec![plural(io as u64, "I/O flow")];
    let cautions = survey.findings.iter().filter(|finding| finding.kind.is_caution());
    parts.extend(cautions.map(|finding| {
        let over = finding.interface.as_ref().map_or_else(String::new, |interface| format!(" ({interface})"));
        format!("{}{over}", finding.kind.title())
    }));
    parts.join(" · ")
}

/// A line that leaves and arrives level.
fn line(svg: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let middle = f64::midpoint(x1, x2);
    let _ = writeln!(
        svg,
        "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}C{middle:.1} {y1:.1} {middle:.1} {y2:.1} {x2:.1} {y2:.1}\"/>"
    );
    if class.starts_with(LineKind::Bad.class()) {
        cross(svg, (middle, f64::midpoint(y1, y2)));
    }
}

/// Draws a cross on a bad line, for readers who do not see its colour.
fn cross(svg: &mut String, (x, y): (f64, f64)) {
    let (left, top) = (x - CROSS / 2.0, y - CROSS / 2.0);
    let _ = writeln!(
        svg,
        "<path class=\"cross\" d=\"M{left:.1} {top:.1}l{CROSS} {CROSS}m0 -{CROSS}l-{CROSS} {CROSS}\"/>"
    );
}

fn titles(svg: &mut String, survey: &Survey) {
    text::push(svg, (columns::FLOW, 28.0), "title", "start", TITLE);
    let room = columns::WIDTH - 2.0 * columns::FLOW;
    let machine = shortened(&machine(&survey.topology), 12.0, room);
    text::push(svg, (columns::FLOW, 46.0), "subtitle", "start", &machine);
    for (at, part) in lines(&summary(survey), 12.0, room, 2).iter().enumerate() {
        text::push(svg, (columns::FLOW, 62.0 + 16.0 * at as f64), "subtitle", "start", part);
    }
}

fn legend(svg: &mut String) {
    let mut x = columns::FLOW;
    for (class, name) in [
        ("line good", "as it should be"),
        ("line bad", "queue shared, worker elsewhere, or off the card's node"),
        ("line", "admin queue, or not known"),
        ("line maybe", "one of several"),
        ("line unsure", "worker's CPU unknown"),
    ] {
        line(svg, class, (x, 98.0), (x + 26.0, 98.0));
        text::push(svg, (x + 32.0, 102.0), "note", "start", name);
        x += 32.0 + width(name, 11.0) + 14.0;
    }
    for (x, name) in [
        (columns::FLOW, "NVMe/TCP queue and its connection"),
        (columns::QUEUE, "receive queue"),
        (columns::IRQ, "interrupt"),
        (columns::CPU, "CPU"),
        (columns::WORKER, "worker, in its CPU's row"),
    ] {
        text::push(svg, (x, layout::TOP - 12.0), "column", "start", name);
    }
}

fn bands(svg: &mut String, layout: &Layout) {
    for band in &layout.bands {
        let _ = writeln!(
            svg,
            "<rect class=\"band\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"6\"/>",
            columns::CPU - 12.0,
            band.top,
            columns::WIDTH - columns::CPU + 4.0,
            (band.bottom - band.top).max(0.0)
        );
    }
}

fn heads(svg: &mut String, layout: &Layout) {
    for head in &layout.heads {
        let room = if head.x < columns::QUEUE { columns::FLOW_ROOM } else { columns::QUEUE_ROOM };
        text::push(svg, (head.x, head.y + 4.0), "head", "start", &shortened(&head.text, 11.0, room));
    }
}

/// Every queue's way to its processor, whether a flow takes it or not.
fn interrupts(svg: &mut String, survey: &Survey, layout: &Layout) {
    for (interface, queue) in
        layout.queues.iter().filter_map(|queue| Some((survey.topology.interface(&queue.interface)?, queue)))
    {
        let receive = interface.receive.iter().find(|receive| Some(receive.index) == queue.index);
        let Some(interrupt) = receive.and_then(|receive| receive.interrupt.as_ref()) else { continue };
        line(svg, plain(queue).class(), (columns::QUEUE_END, queue.y), (columns::IRQ, queue.y));
        text::push(
            svg,
            (columns::IRQ + 4.0, queue.y + 4.0),
            free(queue),
            "start",
            &interrupt.irq.to_string(),
        );
        let Some(cpu) = interrupt.cpu() else {
            let any = format!("CPUs {}", interrupt.affinity);
            text::push(
                svg,
                (columns::IRQ_END + 6.0, queue.y + 4.0),
                "note",
                "start",
                &shortened(&any, 11.0, 100.0),
            );
            continue;
        };
        let Some(y) = layout.cpu(cpu) else { continue };
        let is_steered = receive.is_some_and(|receive| !receive.rps.is_empty());
        let kind = if is_off_node(&survey.topology, interface, cpu) && queue.io_flows > 0 {
            LineKind::Bad
        } else if queue.io_flows > 0 && !is_steered {
            LineKind::Good
        } else {
            plain(queue)
        };
        line(svg, kind.class(), (columns::IRQ_END, queue.y), (columns::CPU, y));
    }
}

fn plain(queue: &QueueBox) -> LineKind {
    if queue.flows == 0 { LineKind::Unused } else { LineKind::Plain }
}

fn free(queue: &QueueBox) -> &'static str {
    if queue.flows == 0 { "free" } else { "taken" }
}

/// A flow's name, its lines and its worker; what they say in words for who points at it.
fn flow_lines(svg: &mut String, layout: &Layout, y: f64, flow: &Flow, legs: &[Leg]) {
    let _ = writeln!(svg, "<g class=\"flow\">\n<title>{}</title>", escaped(&sentence(flow, legs)));
    let ends = format!("{} → {}", flow.local.port(), flow.peer);
    // What has no queue's number is called by its other end anyway.
    let label = flow.queue_id.map_or_else(|| ends.clone(), |_| format!("{} · {ends}", name(flow)));
    let label = shortened(&label, 11.0, columns::FLOW_ROOM);
    let begin = columns::FLOW_END.min(columns::FLOW + width(&label, 11.0) + 8.0);
    text::push(svg, (columns::FLOW, y + 4.0), "name", "start", &label);
    let several = if legs.len() > 1 { " maybe" } else { "" };
    for leg in legs {
        let Some(queue) = layout.queue(&leg.interface, leg.queue) else { continue };
        let kind = match flow.is_io() {
            _ if leg.queue.is_none() => LineKind::Plain,
            true if queue.io_flows > 1 => LineKind::Bad,
            true => LineKind::Good,
            false => LineKind::Plain,
        };
        let class = format!("{}{several}", kind.class());
        line(svg, &class, (begin, y), (columns::QUEUE, queue.y));
        if leg.cpu.is_none() {
            // RPS hands on from the interrupt's processor to one of several.
            for to in leg.cpus.iter().filter_map(|cpu| layout.cpu(cpu)).take(GUESSES_MAX) {
                line(svg, "line maybe", (columns::IRQ_END, queue.y), (columns::CPU, to));
            }
        } else if leg.irq.is_none()
            && let Some(to) = leg.cpu.and_then(|cpu| layout.cpu(cpu))
        {
            // Without an interrupt, as of a veth, RPS alone says where.
            line(svg, LineKind::Plain.class(), (columns::QUEUE_END, queue.y), (columns::CPU, to));
        }
        to_worker(svg, layout, flow, leg, several);
    }
    if let Some(worker) = layout.workers.iter().find(|worker| worker.connection == (flow.local, flow.peer)) {
        let place = (columns::WORKER + 4.0, worker.y + 4.0);
        text::push(svg, place, "name", "start", &shortened(&worker.text, 11.0, columns::WORKER_ROOM));
        if worker.is_at_cpu
            && legs.iter().all(|leg| leg.cpu.is_none())
            && let Some(from) = flow.worker.as_ref().and_then(|worker| layout.cpu(worker.cpu?))
        {
            line(svg, "line", (columns::CPU_END, from), (columns::WORKER, worker.y));
        }
    }
    svg.push_str("</g>\n");
}

/// From the processor that receives to the worker.
fn to_worker(svg: &mut String, layout: &Layout, flow: &Flow, leg: &Leg, several: &str) {
    let worker = layout.workers.iter().find(|worker| worker.connection == (flow.local, flow.peer));
    let (Some(worker), Some(from)) = (worker, leg.cpu.and_then(|cpu| layout.cpu(cpu))) else { return };
    let kind = match flow.is_io() {
        true if is_elsewhere(flow, leg) => LineKind::Bad,
        true if leg.is_workers == Some(true) => LineKind::Good,
        _ => LineKind::Plain,
    };
    let unsure = if worker.is_at_cpu { "" } else { " unsure" };
    let class = format!("{}{several}{unsure}", kind.class());
    line(svg, &class, (columns::CPU_END, from), (columns::WORKER, worker.y));
}

/// The course of a flow in a sentence.
fn sentence(flow: &Flow, legs: &[Leg]) -> String {
    let mut text = format!("{}: {} to {}", name(flow), flow.local, flow.peer);
    for leg in legs {
        let _ = write!(text, "; {}", leg.interface);
        if let Some(hash) = leg.hash {
            let _ = write!(text, ", hash {hash:08x}");
        }
        let _ = write!(text, ", {}", chosen(&leg.steering));
        for (what, value) in [("queue", leg.queue), ("IRQ", leg.irq), ("CPU", leg.cpu)] {
            if let Some(value) = value {
                let _ = write!(text, ", {what} {value}");
            }
        }
    }
    match flow.worker.as_ref().map(|worker| (worker.cpu, &worker.allowed)) {
        Some((Some(cpu), _)) => text + &format!("; worker on CPU {cpu}"),
        Some((None, allowed)) if !allowed.is_empty() => text + &format!("; worker on one of CPUs {allowed}"),
        _ => text,
    }
}

/// The boxes of queues and processors, over the lines' ends.
fn boxes(svg: &mut String, layout: &Layout) {
    for queue in &layout.queues {
        let class = match queue.io_flows {
            _ if queue.flows == 0 => "box free",
            many if many > 1 && queue.index.is_some() => "box bad",
            _ => "box",
        };
        rectangle(svg, class, columns::QUEUE, columns::QUEUE_END, queue.y);
        let number = queue.index.map_or_else(|| "unknown".to_owned(), |index| index.to_string());
        text::push(svg, (columns::QUEUE + 6.0, queue.y + 4.0), free(queue), "start", &number);
        if queue.io_flows > 1 && queue.index.is_some() {
            let times = format!("×{}", queue.io_flows);
            text::push(svg, (columns::QUEUE_END - 6.0, queue.y + 4.0), "bad-word", "end", &times);
        }
    }
    for cpu in &layout.cpus {
        rectangle(svg, "box", columns::CPU, columns::CPU_END, cpu.y);
        text::push(svg, (columns::CPU + 6.0, cpu.y + 4.0), "name", "start", &cpu.cpu.to_string());
    }
    if layout.flows_left_out > 0 {
        let text = format!("{} more are not drawn", plural(layout.flows_left_out as u64, "flow"));
        text::push(svg, (columns::FLOW, layout.height - 10.0), "note", "start", &text);
    }
}

fn rectangle(svg: &mut String, class: &str, left: f64, right: f64, y: f64) {
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\"/>",
        y - layout::BOX / 2.0,
        right - left,
        layout::BOX
    );
}

#[cfg(test)]
mod tests;
