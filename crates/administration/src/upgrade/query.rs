//! Queries of a process that may be replaced: how it was started, and which program it runs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use engine::hand_over::{About, Protocol, Word};

use super::channel::Channel;

/// Time-out for a process to report its start parameters.
pub const ANSWER: Duration = Duration::from_secs(10);
/// Time for a new process that serves until it reports as it should.
const REPORT: Duration = Duration::from_secs(10);
/// Interval of requests to the new process.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Asks a process for its start parameters.
pub fn ask<P: Protocol>(channel: &Channel, time: Duration) -> io::Result<About> {
    channel.wait_at_most(Some(time))?;
    let version = crate::version::NUMBER.to_owned();
    channel.say(&Word::<P>::Hello { version, asks_only: true, knows: Vec::new() }, &[])?;
    match channel.hear::<P>()? {
        (Word::About(about), _) => Ok(about),
        _ => Err(io::Error::other("it answers something else")),
    }
}

/// Asks at this place until the report of the new process is as expected; `None` where that process ends or time runs out. It
/// serves already, so that nothing depends on it.
pub fn await_report<P: Protocol>(
    place: &Path,
    new: &mut Child,
    is_expected: impl Fn(&About) -> bool,
) -> Option<About> {
    let until = Instant::now() + REPORT;
    while Instant::now() < until && matches!(new.try_wait(), Ok(None)) {
        let about = Channel::connect(place).and_then(|channel| ask::<P>(&channel, ANSWER));
        if let Some(about) = about.ok().filter(&is_expected) {
            return Some(about);
        }
        thread::sleep(LOOK_AGAIN);
    }
    None
}

/// True if a process runs this file already.
pub fn runs(about: &About, program: &Path) -> bool {
    fs::metadata(program).is_ok_and(|file| about.program == Some((file.dev(), file.ino())))
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use engine::target::hand_over::TargetProtocol;
    use prerequisite::patience;

    use super::*;

    /// Hand-over of another service.
    #[derive(Debug)]
    enum OtherProtocol {}

    impl Protocol for OtherProtocol {
        const MAGIC: [u8; 8] = *b"slv-test";
        const FORMAT: u32 = 7;
        const PREPARATION: Duration = Duration::ZERO;
        const TAKING: Duration = Duration::ZERO;
        const TAKING_EACH: Duration = Duration::ZERO;
        type Offer = ();
        type State = ();
        type Descriptor = OwnedFd;
    }

    /// Result of a query by `P`, to a process that replies with this word.
    fn asked<P: Protocol, Q: Protocol>(reply: &Word<Q>) -> io::Result<About> {
        let (here, there) = UnixStream::pair().unwrap();
        let process = Channel::new(there);
        process.say(reply, &[]).unwrap();
        let about = ask::<P>(&Channel::new(here), patience());
        let (greeting, _) = process.hear::<P>().unwrap();
        let Word::Hello { version, asks_only, .. } = greeting else {
            panic!("{greeting:?} is not a greeting")
        };
        assert_eq!((version.as_str(), asks_only), (crate::version::NUMBER, true));
        about
    }

    fn about() -> About {
        About { process: 7, arguments: vec!["serve".to_owned()], ..About::default() }
    }

    #[test]
    fn a_process_of_any_service_reports_its_start_parameters() {
        let target = asked::<TargetProtocol, TargetProtocol>(&Word::About(about())).unwrap();
        let other = asked::<OtherProtocol, OtherProtocol>(&Word::About(about())).unwrap();
        for about in [target, other] {
            assert_eq!((about.process, about.arguments), (7, vec!["serve".to_owned()]));
        }
    }

    #[test]
    fn replies_of_another_kind_or_service_and_silence_are_errors() {
        let error = asked::<OtherProtocol, OtherProtocol>(&Word::Ready).unwrap_err();
        assert_eq!(error.to_string(), "it answers something else");
        let error = asked::<TargetProtocol, OtherProtocol>(&Word::About(about())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let (here, _there) = UnixStream::pair().unwrap();
        assert!(ask::<TargetProtocol>(&Channel::new(here), Duration::from_millis(1)).is_err());
    }

    #[test]
    fn a_program_is_known_by_its_file_and_not_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let [program, link, copy] = ["program", "link", "copy"].map(|name| folder.path().join(name));
        fs::write(&program, "same").unwrap();
        fs::hard_link(&program, &link).unwrap();
        fs::copy(&program, &copy).unwrap();
        let file = fs::metadata(&program).unwrap();
        let about = About { program: Some((file.dev(), file.ino())), ..About::default() };
        assert!(runs(&about, &program) && runs(&about, &link));
        assert!(!runs(&about, &copy) && !runs(&about, &folder.path().join("none")));
        assert!(!runs(&About::default(), &program));
    }
}
