//! `${NAME}` in a job file, which stands for a variable of the environment, and fio's own words for this machine.

/// Lookup of a variable: `NAME` of the environment, or `$ncpus` and `$pagesize` of the machine.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Names of fio's own variables. (Its `$mb_memory` is about the page cache, which is not used
/// here.)
const WORDS: [&str; 2] = ["$ncpus", "$pagesize"];

/// Names as this process has them.
pub fn of_this_process(name: &str) -> Option<String> {
    match name {
        "$ncpus" => std::thread::available_parallelism().ok().map(|count| count.to_string()),
        "$pagesize" => Some(rustix::param::page_size().to_string()),
        _ => std::env::var(name).ok(),
    }
}

/// A line with the values in the places of their names.
///
/// # Errors
/// The name that has no value: fio would go on with nothing in its place.
pub(super) fn replace(line: &str, lookup: Lookup<'_>) -> Result<String, String> {
    let mut replaced = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("${") {
        let Some(length) = rest[at..].find('}') else { break };
        let name = &rest[at + 2..at + length];
        let value = lookup(name).filter(|_| !name.starts_with('$'));
        let value = value.ok_or_else(|| format!("the environment has no variable `{name}`"))?;
        replaced.push_str(&rest[..at]);
        replaced.push_str(&value);
        rest = &rest[at + length + 1..];
    }
    replaced.push_str(rest);
    for word in WORDS {
        if replaced.contains(word) {
            let value = lookup(word).ok_or_else(|| format!("{word} is unknown"))?;
            replaced = replaced.replace(word, &value);
        }
    }
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_once_and_none_is_passed_over() {
        let lookup = |name: &str| match name {
            "SIZE" => Some("16m".to_owned()),
            "TRICK" => Some("${SIZE}".to_owned()),
            "$ncpus" => Some("8".to_owned()),
            _ => None,
        };
        for (line, expected) in [
            ("size=${SIZE}", "size=16m"),
            ("size=${SIZE}${SIZE}", "size=16m16m"),
            ("filename=${TRICK}", "filename=${SIZE}"),
            ("numjobs=$ncpus", "numjobs=8"),
            ("description=$5 and ${ open", "description=$5 and ${ open"),
        ] {
            assert_eq!(replace(line, &lookup).as_deref(), Ok(expected));
        }
        for line in ["size=${NONE}", "size=${}", "size=${$ncpus}", "bs=$pagesize"] {
            assert!(replace(line, &lookup).is_err(), "{line}");
        }
    }
}
