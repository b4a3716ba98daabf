//! What ethtool said of interfaces before a process gave up asking it for some of that: such a process knows it as it was
//! then, and says so.

use std::collections::BTreeMap;

use super::{EthtoolAnswers, Refusal};
use crate::ethtool::{self, DRIVER, HASHED_FIELDS, RULES};
use crate::limits::INTERFACES_MAX;

const KEPT: &str = "as it was when this process started, which has given up asking for it since";
const MISSED: &str = "this process had given up asking for it before the interface was there";

/// Answers of ethtool about each interface, at one moment.
#[derive(Debug, Default)]
pub struct FormerAnswers {
    /// Absent where nothing was asked: nothing is completed then.
    answers: Option<BTreeMap<String, EthtoolAnswers>>,
}

impl FormerAnswers {
    /// Asks ethtool about these interfaces.
    pub(super) fn of(names: &[String]) -> Self {
        let ask = |name: &String| (name.clone(), ethtool::answers(name));
        Self { answers: Some(names.iter().take(INTERFACES_MAX).map(ask).collect()) }
    }

    /// The answers with what was said before in place of what was refused, and a remark that says so where it may be another by
    /// now.
    pub(super) fn completed(&self, interface: &str, mut now: EthtoolAnswers) -> EthtoolAnswers {
        let Some(answers) = &self.answers else { return now };
        let former = answers.get(interface);
        for refusal in std::mem::take(&mut now.refusals) {
            if refusal.errno != libc::EPERM || ![DRIVER, HASHED_FIELDS, RULES].contains(&&*refusal.question) {
                now.refusals.push(refusal);
                continue;
            }
            if let Some(former) = former {
                take_over(&refusal.question, former, &mut now);
            } else if refusal.question == RULES {
                // Unread rules are unknown, and not an empty list.
                now.ntuple = None;
            }
            // A driver stays what it is.
            if refusal.question != DRIVER {
                let words = Some(if former.is_some() { KEPT } else { MISSED }.to_owned());
                now.refusals.push(Refusal { errno: libc::ESTALE, words, ..refusal });
            }
        }
        now
    }
}

/// Takes over what was said before to a question.
fn take_over(question: &str, former: &EthtoolAnswers, now: &mut EthtoolAnswers) {
    match (question, &former.rss, &former.ntuple) {
        (DRIVER, _, _) => now.driver.clone_from(&former.driver),
        (HASHED_FIELDS, Some(former), _) => {
            if let Some(rss) = &mut now.rss {
                (rss.tcp4, rss.tcp6) = (former.tcp4, former.tcp6);
            }
        }
        (RULES, _, Some(former)) => {
            if let Some(ntuple) = &mut now.ntuple {
                (ntuple.places, ntuple.rules) = (former.places, former.rules.clone());
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::{Ntuple, NtupleRule, Rss, RssFields, RuleScope};

    fn former() -> FormerAnswers {
        let rule = NtupleRule { location: 3, flow: None, queue: Some(1), scope: RuleScope::OtherProtocol };
        let answers = EthtoolAnswers {
            driver: Some("ice".to_owned()),
            rss: Some(Rss { tcp6: RssFields::Addresses, ..Rss::default() }),
            ntuple: Some(Ntuple { rules: vec![rule], places: Some(8), ..Ntuple::default() }),
            ..EthtoolAnswers::default()
        };
        FormerAnswers { answers: Some([("eth0".to_owned(), answers)].into()) }
    }

    /// Answers for a process that may not use the ioctl.
    fn confined() -> EthtoolAnswers {
        let refused = |question| Refusal::new(question, &io::Error::from_raw_os_error(libc::EPERM));
        let unknown = RssFields::Unknown;
        EthtoolAnswers {
            rss: Some(Rss { tcp4: unknown, tcp6: unknown, table: vec![1, 0], ..Rss::default() }),
            ntuple: Some(Ntuple { is_supported: true, is_enabled: true, ..Ntuple::default() }),
            refusals: [DRIVER, HASHED_FIELDS, RULES].map(refused).into(),
            ..EthtoolAnswers::default()
        }
    }

    #[test]
    fn what_was_given_up_is_as_it_was_and_the_rest_as_it_is() {
        let found = former().completed("eth0", confined());
        assert_eq!(found.driver.as_deref(), Some("ice"));
        let (rss, ntuple) = (found.rss.unwrap(), found.ntuple.unwrap());
        assert_eq!((rss.tcp4, rss.tcp6), (RssFields::AddressesAndPorts, RssFields::Addresses));
        assert_eq!((rss.table, ntuple.is_enabled), (vec![1, 0], true));
        assert_eq!((ntuple.rules.len(), ntuple.places), (1, Some(8)));
        let words: Vec<_> = found.refusals.iter().map(|refusal| refusal.error().to_string()).collect();
        assert_eq!(words, [KEPT, KEPT]);
    }

    #[test]
    fn of_an_interface_that_came_later_rules_are_not_known() {
        let found = former().completed("eth1", confined());
        assert_eq!((found.driver, found.ntuple), (None, None));
        assert_eq!(found.rss.unwrap().tcp4, RssFields::Unknown);
        let words: Vec<_> = found.refusals.iter().map(|refusal| refusal.error().to_string()).collect();
        assert_eq!(words, [MISSED, MISSED]);
    }

    #[test]
    fn what_another_error_says_stays() {
        let gone = || EthtoolAnswers {
            refusals: vec![Refusal::new("rss", &io::Error::from_raw_os_error(libc::ENODEV))],
            ..EthtoolAnswers::default()
        };
        assert_eq!(former().completed("eth0", gone()), gone());
        assert_eq!(FormerAnswers::default().completed("eth0", confined()), confined());
    }
}
