//! Places in a picture with a word: lines across the plot, and rings around a point. No word leaves the picture.

use std::fmt::Write;

use super::paint::{Canvas, WIDTH};
use super::text::{self, TICK_SIZE};
use crate::chart::Mark;

const RING: f64 = 9.0;
/// From one row of words to the next.
const ROW: f64 = 16.0;
/// Rows by which words may move down before they cover each other.
const ROWS_MAX: usize = 8;

/// Position of a mark.
enum Position {
    Vertical(f64),
    Band(f64, f64),
    Horizontal(f64),
    Ring(f64, f64),
}

fn position(canvas: &Canvas, mark: &Mark) -> Option<Position> {
    match (mark.x, mark.y) {
        (Some(x), Some(y)) => Some(Position::Ring(canvas.x(x)?, canvas.y(y)?)),
        (Some(x), None) => Some(match mark.until.map(|until| canvas.x_end(until)) {
            Some(until) => Position::Band(canvas.x(x)?, until),
            None => Position::Vertical(canvas.x(x)?),
        }),
        (None, Some(y)) => Some(Position::Horizontal(canvas.y(y)?)),
        (None, None) => None,
    }
}

/// Draws the lines and rings; the words come above everything else.
pub(super) fn lines(svg: &mut String, canvas: &Canvas, marks: &[Mark]) {
    let Canvas { left, right, top, bottom, .. } = *canvas;
    for mark in marks {
        let _ = match position(canvas, mark) {
            Some(Position::Vertical(x)) => {
                writeln!(svg, "<path class=\"mark\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>")
            }
            Some(Position::Band(from, until)) => {
                let (width, height) = ((until - from).max(1.0), bottom - top);
                writeln!(
                    svg,
                    "<rect class=\"band\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
                )
            }
            Some(Position::Horizontal(y)) => {
                writeln!(svg, "<path class=\"mark\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>")
            }
            Some(Position::Ring(x, y)) => {
                writeln!(svg, "<circle class=\"mark ring\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RING}\"/>")
            }
            None => Ok(()),
        };
    }
}

/// A word's box.
#[derive(Clone, Copy)]
struct Word {
    left: f64,
    right: f64,
    /// Base line of the words.
    y: f64,
}

impl Word {
    fn covers(&self, other: &Word) -> bool {
        self.left < other.right && other.left < self.right && (self.y - other.y).abs() < ROW - 2.0
    }
}

/// Draws the words, each beside its mark and apart from those before it.
pub(super) fn words(svg: &mut String, canvas: &Canvas, marks: &[Mark]) {
    let mut taken: Vec<Word> = Vec::new();
    for mark in marks {
        let Some(position) = position(canvas, mark) else { continue };
        if mark.label.is_empty() {
            continue;
        }
        let shown = text::shortened(&mark.label, TICK_SIZE, canvas.right - canvas.left - 8.0);
        let width = text::width(&shown, TICK_SIZE);
        let wanted = wanted(canvas, &position, width);
        let rows = (0..ROWS_MAX).map(|row| moved(canvas, wanted, row));
        let free = rows.into_iter().find(|word| !taken.iter().any(|other| other.covers(word)));
        let word = free.unwrap_or(wanted);
        taken.push(word);
        text::push(svg, (word.left, word.y), "word", "start", &shown);
    }
}

fn wanted(canvas: &Canvas, position: &Position, width: f64) -> Word {
    let beside = |x: f64, gap: f64| {
        // To the right of it where there is room, or else to the left.
        let left = if x + gap + width <= canvas.right { x + gap } else { x - gap - width };
        left.clamp(0.0, (WIDTH - width).max(0.0))
    };
    let (left, y) = match *position {
        Position::Vertical(x) | Position::Band(x, _) => {
            let left = beside(x, 5.0);
            (left, if left < canvas.word_left { canvas.top + 12.0 } else { canvas.word_y })
        }
        Position::Horizontal(y) => {
            let y = if y - 6.0 - TICK_SIZE > canvas.top { y - 6.0 } else { y + 15.0 };
            ((canvas.right - width - 4.0).max(0.0), y)
        }
        Position::Ring(x, y) => {
            (beside(x, RING + 5.0), (y + 4.0).clamp(canvas.top + 12.0, canvas.bottom - 5.0))
        }
    };
    Word { left, right: left + width, y }
}

/// The word some rows further down, or from the bottom up again where the plot ends.
fn moved(canvas: &Canvas, word: Word, row: usize) -> Word {
    let y = word.y + ROW * row as f64;
    let over = y - (canvas.bottom - 5.0);
    Word { y: if over > 0.0 { word.y - over.max(ROW) } else { y }, ..word }
}
