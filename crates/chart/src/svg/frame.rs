//! What every picture begins with: its size, and its name and description for those who do not see it. It keeps out what
//! is drawn.

use std::fmt::Write;

use crate::markup::{escaped, identifier};

/// The frame of a picture.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Class of its style.
    pub class: &'a str,
    /// Unique in its page.
    pub id: &'a str,
    /// Title of the picture.
    pub title: &'a str,
    /// Content of the picture, in words.
    pub description: &'a str,
    /// Size in its own pixels.
    pub width: f64,
    /// See `width`.
    pub height: f64,
    /// Upper edge of the visible part.
    pub top: f64,
    /// A reader's pixels for one of its own; none where a page gives it the room there is.
    pub scale: Option<f64>,
    /// Style sheet and background, for pages without them.
    pub style: Option<&'a str>,
}

impl Frame<'_> {
    /// The beginning; what is drawn and `</svg>` follow.
    pub fn opening(&self) -> String {
        let Frame { class, width, height, top, .. } = *self;
        let (id, title) = (identifier(self.id), escaped(self.title));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" role=\"img\" \
             viewBox=\"0 {top:.0} {width:.0} {height:.0}\" aria-labelledby=\"{id}-title {id}-desc\""
        );
        if let Some(scale) = self.scale {
            let _ = write!(svg, " width=\"{:.0}\" height=\"{:.0}\"", width * scale, height * scale);
        }
        let description = escaped(self.description);
        let _ = write!(
            svg,
            ">\n<title id=\"{id}-title\">{title}</title>\n<desc id=\"{id}-desc\">{description}</desc>\n"
        );
        if let Some(style) = self.style {
            let _ = write!(
                svg,
                "<style>\n{style}</style>\n\
                 <rect class=\"paper\" y=\"{top:.0}\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n"
            );
        }
        svg
    }
}
