//! A report as files in a folder, each whole or not there. It keeps out what is in them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use chart::markup::identifier;
use chart::svg::{self, Look};
use serde_json::Value;

use super::document::Document;
use super::{csv, markdown, page};
use crate::failure::Failure;

/// Writes report.html, report.json, report.md, an SVG file for each chart and a CSV file for each table.
///
/// `data` is all that was measured, for programs.
///
/// # Errors
/// When the folder or a file in it cannot be written, or two charts or two tables have one name.
pub fn write(document: &Document, data: &Value, folder: &Path) -> Result<(), Failure> {
    let files = files(document, data)?;
    let failed = |path: &Path, error: &io::Error| {
        Failure::failed(format!("{}: the report cannot be written: {error}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    for (name, text) in files {
        let path = folder.join(name);
        replace(&path, text.as_bytes()).map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

/// Returns all files by name. The page comes last: a reader who sees it finds the others beside it.
fn files(document: &Document, data: &Value) -> Result<Vec<(String, String)>, Failure> {
    let mut files = Vec::new();
    for chart in &document.charts {
        files.push((format!("{}.svg", identifier(&chart.id)), svg::draw(chart, Look::File)));
    }
    for table in &document.tables {
        files.push((format!("{}.csv", identifier(&table.id)), csv::render(table)));
    }
    let json = serde_json::to_string_pretty(data).map_err(Failure::failed)?;
    files.push(("report.json".to_owned(), json + "\n"));
    files.push(("report.md".to_owned(), markdown::render(document)));
    files.push(("report.html".to_owned(), page::render(document, data)));
    for (number, (name, _)) in files.iter().enumerate() {
        if files.iter().skip(number + 1).any(|(other, _)| other == name) {
            return Err(Failure::failed(format!("two parts of the report would both be {name}")));
        }
    }
    Ok(files)
}

/// Writes beside the file and renames: a crash leaves the old file or the new one.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(name);
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&beside, path)).inspect_err(|_| {
        // What is left of it is not a reason to say more than the first error.
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_folder_has_every_part_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let document = sample::document();
        let data = serde_json::json!({"points": [1, 2, 3]});
        let inside = folder.path().join("new");
        // Twice: a report is replaced as well as it is made.
        for _ in 0..2 {
            write(&document, &data, &inside).unwrap();
        }
        let mut names: Vec<String> = fs::read_dir(&inside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut expected = vec!["report.html".to_owned(), "report.json".to_owned(), "report.md".to_owned()];
        expected.extend(document.charts.iter().map(|chart| format!("{}.svg", chart.id)));
        expected.extend(document.tables.iter().map(|table| format!("{}.csv", table.id)));
        expected.sort();
        assert_eq!(names, expected);
        let json = fs::read_to_string(inside.join("report.json")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), data);
    }

    #[test]
    fn names_that_meet_are_refused() {
        let mut document = sample::document();
        let again = document.charts[0].clone();
        document.charts.push(again);
        let folder = tempfile::tempdir().unwrap();
        let failure = write(&document, &Value::Null, folder.path()).unwrap_err();
        assert!(failure.line().unwrap().contains("iops.svg"), "{failure:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let failure = write(&sample::document(), &Value::Null, &file.join("in")).unwrap_err();
        assert!(failure.line().unwrap().contains("file/in"), "{failure:?}");
    }
}
