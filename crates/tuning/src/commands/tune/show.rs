//! `selvedge tune show`: the machine's interfaces, and where the packets of each NVMe/TCP queue go, as tables, as JSON
//! and as a picture.

use std::path::Path;

use chart::svg::Look;

use super::see;
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::tune::ShowFlags;
use crate::packet_path::{Survey, picture};
use crate::report;
use crate::report::folder::replace;
use crate::tune::{page, survey_text};

/// Looks, draws, prints.
pub(super) fn run(flags: &ShowFlags) -> Result<(), Failure> {
    let drawing = flags.picture.as_deref().map(Drawing::of).transpose()?;
    let survey = Survey::new(see(&flags.machine)?);
    if let Some(drawing) = drawing {
        drawing.draw(&survey)?;
    }
    match flags.output.output_format {
        OutputFormat::Normal => report::print(survey_text(&survey)),
        OutputFormat::Json => report::print_json(&survey),
    }
}

/// A picture that is asked for, in the form of its file's ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drawing<'a> {
    file: &'a Path,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Svg,
    Html,
}

impl<'a> Drawing<'a> {
    /// Draws a survey into the file.
    pub(super) fn draw(&self, survey: &Survey) -> Result<(), Failure> {
        let text = match self.form {
            Form::Svg => picture(survey, Look::File),
            Form::Html => page(survey),
        };
        let cannot = |error| Failure::failed(format!("{} cannot be written: {error}", self.file.display()));
        replace(self.file, text.as_bytes()).map_err(cannot)
    }

    /// Returns the form of the picture, by the file's suffix.
    pub(super) fn of(file: &'a Path) -> Result<Self, Failure> {
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("svg") => Ok(Self { file, form: Form::Svg }),
            Some("html" | "htm") => Ok(Self { file, form: Form::Html }),
            _ => Err(Failure::usage(format!(
                "--picture {}: the name must end in .svg (the picture) or .html (a page with the tables)",
                file.display()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_says_what_is_drawn() {
        assert_eq!(Drawing::of(Path::new("a/b.svg")).unwrap().form, Form::Svg);
        assert_eq!(Drawing::of(Path::new("b.html")).unwrap().form, Form::Html);
        for wrong in ["b", "b.png", "svg"] {
            let failure = Drawing::of(Path::new(wrong)).unwrap_err();
            assert!(failure.line().is_some_and(|line| line.contains(".html")), "{wrong}");
        }
    }
}
