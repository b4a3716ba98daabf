//! Network of a machine beside its queues: settings of links, queueing disciplines, traffic of
//! connections, routes and addresses. In trees and recordings each answer is JSON in the folder
//! `selvedge`; a missing one is an error.

use std::io;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::live::interface_name;
use super::{Machine, Source, answers};
use crate::connection::Connection;
use crate::ethtool;
use crate::kernel_log::KernelLog;
use crate::kernel_route::{InterfaceAddress, KernelRoute};
use crate::limit_line::is_about_queues;
use crate::link::{LinkSettings, Queueing};
use crate::netlink::sock_diag::Family;
use crate::netlink::{queueing, route, sock_diag};

impl Machine {
    /// Settings of an interface.
    ///
    /// # Errors
    /// The answer is not in the recording. A refusal by the kernel is part of the answer.
    pub fn link_settings(&self, interface: &str) -> io::Result<LinkSettings> {
        self.kept(&format!("selvedge/link/{interface}.json"), || Ok(ethtool::link_settings(interface)))
    }

    /// The queueing disciplines of all interfaces.
    ///
    /// # Errors
    /// The kernel refuses, or the answer is not in the recording.
    pub fn queueings(&self, moment: &str) -> io::Result<Vec<Queueing>> {
        self.kept(&format!("selvedge/queueing-{moment}.json"), || {
            // An interface that is gone since has no name, and nothing that matters.
            let named = |(index, found)| Some(Queueing { interface: interface_name(index).ok()?, ..found });
            Ok(queueing::queueings()?.into_iter().filter_map(named).collect())
        })
    }

    /// Traffic of the connections with these ends.
    ///
    /// # Errors
    /// The kernel refuses, or the answer is not in the recording.
    pub fn connections(
        &self,
        moment: &str,
        is_wanted: impl Fn(SocketAddr, SocketAddr) -> bool,
    ) -> io::Result<Vec<Connection>> {
        self.kept(&format!("selvedge/connections-{moment}.json"), || {
            let mut all = sock_diag::connections(Family::Ipv4)?;
            // A kernel without the other family has none of its connections.
            all.extend(sock_diag::connections(Family::Ipv6).unwrap_or_default());
            all.retain(|connection| is_wanted(connection.local, connection.peer));
            Ok(all)
        })
    }

    /// Route to an address, when packets come from `source`.
    ///
    /// # Errors
    /// The kernel refuses, with `ENETUNREACH` if there is no route; or the answer is not in the
    /// recording.
    pub fn kernel_route(&self, destination: IpAddr, source: Option<IpAddr>) -> io::Result<KernelRoute> {
        let from = source.map_or_else(|| "any".to_owned(), |source| source.to_string());
        let path = format!("selvedge/ways/{destination}/{from}.json");
        self.kept(&path, || {
            let (index, kernel_route) = route::route_to(destination, source)?;
            Ok(KernelRoute { interface: interface_name(index)?, ..kernel_route })
        })
    }

    /// This machine's addresses.
    ///
    /// # Errors
    /// The kernel refuses, or the answer is not in the recording.
    pub fn addresses(&self) -> io::Result<Vec<InterfaceAddress>> {
        self.kept("selvedge/addresses.json", || {
            let named =
                |(index, found)| Some(InterfaceAddress { interface: interface_name(index).ok()?, ..found });
            Ok(route::addresses()?.into_iter().filter_map(named).collect())
        })
    }

    /// Lines of the kernel's log about the number of I/O queues of its initiator's controllers.
    ///
    /// # Errors
    /// Only root may read the log, or the answer is not in the recording.
    pub fn queue_log(&self) -> io::Result<Vec<String>> {
        self.kept("selvedge/queue-log.json", || {
            let records = KernelLog::from_the_beginning()?.records();
            Ok(records.into_iter().map(|record| record.text).filter(|text| is_about_queues(text)).collect())
        })
    }

    /// An answer of the live system, which recordings keep as JSON at this path.
    ///
    /// # Errors
    /// What `live` says, or that the tree or recording has no answer.
    pub fn kept<T: Serialize + DeserializeOwned>(
        &self,
        path: &str,
        live: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let answer = match &self.source {
            Source::Live => live(),
            Source::Tree(_) | Source::Recording { .. } => self.read_json(path),
        };
        match &answer {
            Ok(found) => self.remember_json(path, found),
            Err(error) => self.remember(path, &Err::<(), _>(again(error)), |()| super::Entry::Directory),
        }
        answer
    }

    fn read_json<T: DeserializeOwned>(&self, path: &str) -> io::Result<T> {
        let text = match &self.source {
            Source::Live => Err(io::ErrorKind::NotFound.into()),
            Source::Tree(tree) => tree.read(path),
            Source::Recording { recording, .. } => recording.read(path),
        };
        let text = text.map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound { answers::unrecorded() } else { error }
        })?;
        serde_json::from_str(&text).map_err(|found| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {found}", self.name(path)))
        })
    }
}

/// The same error once more, for a recording.
fn again(error: &io::Error) -> io::Error {
    io::Error::from_raw_os_error(answers::errno(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recording;

    #[test]
    fn answers_of_this_machine_are_the_same_in_its_recording() {
        let machine = Machine::live().record();
        let loopback = "127.0.0.1".parse().unwrap();
        let settings = machine.link_settings("lo").unwrap();
        let queueings = machine.queueings("first").unwrap();
        let (kernel_route, addresses) =
            (machine.kernel_route(loopback, None).unwrap(), machine.addresses().unwrap());
        let connections = machine.connections("first", |_, _| true).unwrap();
        let text = machine.recording().unwrap().to_string();
        let again = Machine::of_recording("a", text.parse().unwrap());
        assert_eq!(again.link_settings("lo").unwrap(), settings);
        assert_eq!(again.queueings("first").unwrap(), queueings);
        assert_eq!(again.kernel_route(loopback, None).unwrap(), kernel_route);
        assert_eq!(again.addresses().unwrap(), addresses);
        assert_eq!(again.connections("first", |_, _| false).unwrap(), connections);
    }

    #[test]
    fn an_answer_that_was_not_recorded_is_an_error() {
        let machine = Machine::of_recording("a", Recording::default());
        let error = machine.link_settings("eth0").unwrap_err();
        assert!(error.to_string().contains("not in the recording"), "{error}");
        let mut recording = Recording::default();
        recording.file("selvedge/addresses.json", "[1]\n");
        let error = Machine::of_recording("a", recording).addresses().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn refusals_are_kept_as_such() {
        let machine = Machine::live().record();
        let refused =
            machine.kept::<u32>("selvedge/a.json", || Err(io::Error::from_raw_os_error(libc::EPERM)));
        assert!(refused.is_err());
        let again = Machine::of_recording("a", machine.recording().unwrap());
        let error = again.kept::<u32>("selvedge/a.json", || Ok(1)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    }
}
