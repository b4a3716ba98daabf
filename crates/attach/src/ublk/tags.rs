//! Tags of a queue's requests: for which of them the driver has a command, and what its completions mean.

/// Meaning of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    /// A request has come.
    Request,
    /// No request comes for the tag any longer, for the error of this number.
    End(i32),
    /// The driver has no command for the tag, or there is no such tag.
    Stray,
}

/// Tags of one queue.
#[derive(Debug)]
pub(super) struct Tags {
    /// True while the driver has a command for the tag.
    asked: Vec<bool>,
    /// Tags that the driver may have a request for.
    live: usize,
}

impl Tags {
    /// Tags of a queue of this depth, of which none was asked for yet.
    pub(super) fn new(depth: u16) -> Self {
        Self { asked: vec![false; depth.into()], live: depth.into() }
    }

    /// True if a request may come for some tag.
    pub(super) const fn are_live(&self) -> bool {
        self.live > 0
    }

    /// Records that the driver gets a command for the tag.
    pub(super) fn ask(&mut self, tag: u16) {
        if let Some(asked) = self.asked.get_mut(usize::from(tag)) {
            *asked = true;
        }
    }

    /// Meaning of the completion of a tag's command.
    pub(super) fn complete(&mut self, tag: u16, result: i32) -> Completion {
        match self.asked.get_mut(usize::from(tag)) {
            Some(asked) if *asked => *asked = false,
            _ => return Completion::Stray,
        }
        if result == 0 {
            return Completion::Request;
        }
        // Once for each tag: it is not asked for again.
        self.live -= 1;
        Completion::End(result.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_once_for_each_command() {
        let mut tags = Tags::new(2);
        assert_eq!(tags.complete(0, 0), Completion::Stray, "it was not asked for");
        tags.ask(0);
        tags.ask(1);
        let came = [0, 0, 2].map(|tag| tags.complete(tag, 0));
        assert_eq!(came, [Completion::Request, Completion::Stray, Completion::Stray]);
        tags.ask(0);
        assert_eq!(tags.complete(0, 0), Completion::Request);
    }

    #[test]
    fn a_queue_is_over_when_each_tag_has_ended_once() {
        let mut tags = Tags::new(2);
        (0..2).for_each(|tag| tags.ask(tag));
        assert_eq!(tags.complete(1, -19), Completion::End(19));
        assert_eq!(tags.complete(1, -19), Completion::Stray);
        assert!(tags.are_live());
        assert_eq!(tags.complete(0, i32::MIN), Completion::End(i32::MAX));
        assert!(!tags.are_live());
    }
}
