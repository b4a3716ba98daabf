//! Checks of what is seen: nothing too wide, too small, on top of each other or too pale; and on paper.

use serde_json::{Value, json};

use super::page::Page;
use super::{Report, demand};

/// From a small telephone to a large window.
const WIDTHS: [u32; 4] = [400, 768, 1280, 1600];
/// The least size of text in a picture, in pixels of the screen.
const TEXT_PX_MIN: f64 = 9.0;
/// The contrast that WCAG 2 asks of text of usual size.
const CONTRAST_MIN: f64 = 4.5;

/// The page never scrolls sideways.
pub(super) fn width(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    for width in WIDTHS {
        page.set_width(width)?;
        page.open(&report.page())?;
        let wide = page.ask("document.scrollingElement.scrollWidth")?.as_f64().unwrap_or(f64::MAX);
        demand(wide <= f64::from(width), || format!("{wide} pixels wide in a window of {width}"))?;
        // Tables may be wider than the window, each in its own box.
        page.ask("document.querySelectorAll('details').forEach(details => { details.open = true; })")?;
        let wide = page.ask("document.scrollingElement.scrollWidth")?.as_f64().unwrap_or(f64::MAX);
        demand(wide <= f64::from(width), || {
            format!("{wide} pixels wide in a window of {width}, with data open")
        })?;
    }
    Ok(())
}

/// The smallest text of pictures, labels of one axis that touch, and words that leave their picture.
const TEXT: &str = "(() => {
    const problems = [];
    let smallest = Infinity, count = 0;
    for (const svg of document.querySelectorAll('svg.chart')) {
        const name = svg.querySelector('title').textContent;
        const box = svg.getBoundingClientRect();
        const scale = box.width / svg.viewBox.baseVal.width;
        for (const text of svg.querySelectorAll('text')) {
            count += 1;
            smallest = Math.min(smallest, parseFloat(getComputedStyle(text).fontSize) * scale);
            const r = text.getBoundingClientRect();
            if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1) {
                problems.push(`${name}: '${text.textContent}' leaves the picture`);
            }
        }
        const apart = (texts, what) => {
            const boxes = Array.from(texts, text => [text.textContent, text.getBoundingClientRect()]);
            boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
                // Boxes are higher than their letters.
                const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
                const up = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
                if (across > 0.5 && up > 3) problems.push(`${name}: ${what} '${a}' and '${b}' collide`);
            }));
        };
        for (const axis of svg.querySelectorAll('.axis')) {
            const ticks = axis.querySelectorAll('.tick');
            if (ticks.length < 2) problems.push(`${name}: an axis has ${ticks.length} numbers`);
            apart(ticks, 'numbers');
        }
        apart(svg.querySelectorAll('.legend text'), 'names');
        apart(svg.querySelectorAll('.word'), 'words');
    }
    return { problems, smallest, count };
})()";

/// Text in pictures is large enough, stays inside, and numbers of one axis keep apart.
pub(super) fn text(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    for width in WIDTHS {
        page.set_width(width)?;
        page.open(&report.page())?;
        let found = page.ask(TEXT)?;
        let problems = found["problems"].as_array().map_or(&[][..], Vec::as_slice);
        demand(problems.is_empty(), || format!("at {width}: {}", found["problems"]))?;
        demand(found["count"].as_u64() > Some(0), || "there is no text in pictures".to_owned())?;
        let smallest = found["smallest"].as_f64().unwrap_or(0.0);
        demand(smallest >= TEXT_PX_MIN, || format!("text of {smallest:.1} pixels at {width}"))?;
    }
    Ok(())
}

/// The lowest contrast of each kind of text, with the brightness of the page itself.
const CONTRAST: &str = "(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const colour = text => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = text;
        canvas.fillRect(0, 0, 1, 1);
        return Array.from(canvas.getImageData(0, 0, 1, 1).data);
    };
    const light = ([r, g, b]) => {
        const part = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    const ground = element => {
        for (let at = element; at; at = at.parentElement) {
            const own = colour(getComputedStyle(at).backgroundColor);
            if (own[3] === 255) return own;
        }
        return [255, 255, 255, 255];
    };
    const kinds = KINDS;
    const worst = {};
    for (const kind of kinds) {
        for (const element of document.querySelectorAll(kind)) {
            const style = getComputedStyle(element);
            const ink = colour(element instanceof SVGElement ? style.fill : style.color);
            const [a, b] = [light(ink), light(ground(element))];
            const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            worst[kind] = Math.min(worst[kind] ?? Infinity, ratio);
        }
    }
    return { worst, page: light(ground(document.body)) };
})()";

/// The kinds of text that a report has.
const TEXTS: [&str; 24] = [
    "h1",
    "h2",
    "h3",
    ".subtitle",
    "nav a",
    ".finding p",
    ".finding .kind",
    ".see a",
    "figcaption p",
    ".tick",
    ".label",
    ".name",
    ".word",
    ".title",
    "summary",
    ".small",
    "thead th",
    "tbody td",
    "td small",
    "tbody th",
    "dt",
    "dd",
    "footer p",
    ".shown",
];

/// Text of these kinds stands out from its ground, which is light or dark; the contrasts that there are.
pub(super) fn stands_out(
    page: &mut Page<'_>,
    texts: &[&str],
    place: &str,
    is_light: bool,
) -> Result<Value, String> {
    let found = page.ask(&CONTRAST.replace("KINDS", &json!(texts).to_string()))?;
    for (kind, ratio) in found["worst"].as_object().ok_or("there is no text")? {
        let ratio = ratio.as_f64().unwrap_or(0.0);
        demand(ratio >= CONTRAST_MIN, || format!("{kind} has a contrast of {ratio:.2} in {place}"))?;
    }
    let brightness = found["page"].as_f64().unwrap_or(0.5);
    demand((brightness > 0.5) == is_light, || {
        format!("the page's brightness is {brightness:.2} in {place}")
    })?;
    Ok(found["worst"].clone())
}

/// Text stands out from its ground in both schemes, and the schemes are what they are called.
pub(super) fn contrast(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    for scheme in ["light", "dark"] {
        page.set_media("screen", scheme)?;
        page.open(&report.page())?;
        let worst = stands_out(page, &TEXTS, scheme, scheme == "light")?;
        for kind in ["h1", ".tick", ".label", ".finding p", "tbody td", "dd"] {
            demand(worst.get(kind).is_some(), || format!("there is no {kind}"))?;
        }
    }
    Ok(())
}

/// Checks the printed pages: black on white whatever the screen is, with no chart on two of them.
pub(super) fn paper(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    page.open(&report.page())?;
    let pdf = page.print()?;
    demand(pdf.starts_with(b"%PDF-"), || "the printed page is not a PDF".to_owned())?;
    let count =
        pdf.windows(12).filter(|window| window.starts_with(b"/Type /Page") && window[11] != b's').count();
    demand((1..=50).contains(&count), || format!("{count} pages of paper"))?;
    page.set_media("print", "dark")?;
    let found = page.ask(
        "(() => ({
            ground: getComputedStyle(document.body).backgroundColor,
            ink: getComputedStyle(document.querySelector('h1')).color,
            split: Array.from(document.querySelectorAll('figure')).filter(f => getComputedStyle(f).breakInside !== 'avoid').length,
            shadows: Array.from(document.querySelectorAll('*')).filter(e => getComputedStyle(e).boxShadow !== 'none').length,
        }))()",
    )?;
    let wanted = json!({"ground": "rgb(255, 255, 255)", "ink": "rgb(0, 0, 0)", "split": 0, "shadows": 0});
    demand(found == wanted, || format!("on paper: {found}"))
}
