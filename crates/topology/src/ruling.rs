//! Which of an interface's rules decides where a packet goes, and where a rule for one flow has to be so that it does.

use std::net::{IpAddr, SocketAddr};

use super::{MaskedEnd, Ntuple, NtupleRule, RuleScope};

/// Result of matching a rule with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matched {
    Yes,
    No,
    Unknown,
}

/// Rule that decides about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling<'a> {
    /// None: its hash does.
    None,
    /// This one.
    By(&'a NtupleRule),
    /// This one may, and it cannot be known.
    Perhaps(&'a NtupleRule),
}

impl MaskedEnd {
    fn takes(&self, end: SocketAddr) -> bool {
        let port = end.port() & self.port_mask == self.port & self.port_mask;
        port && match (self.address, self.address_mask, end.ip().to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(mask), IpAddr::V4(other)) => own & mask == other & mask,
            (IpAddr::V6(own), IpAddr::V6(mask), IpAddr::V6(other)) => own & mask == other & mask,
            _ => false,
        }
    }
}

impl NtupleRule {
    fn matched(&self, source: SocketAddr, destination: SocketAddr) -> Matched {
        let is = |is: bool| if is { Matched::Yes } else { Matched::No };
        match (self.flow, &self.scope) {
            (Some(flow), _) => is(flow == (source, destination)),
            (None, RuleScope::Unknown) => Matched::Unknown,
            (None, RuleScope::OtherProtocol) => Matched::No,
            (None, RuleScope::Masked { source: from, destination: to }) => {
                is(from.takes(source) && to.takes(destination))
            }
        }
    }
}

impl Ntuple {
    /// Rule that decides about a TCP packet. Of several it is the one with the lowest location: the
    /// kernel wants that of all devices.
    pub fn ruling(&self, source: SocketAddr, destination: SocketAddr) -> Ruling<'_> {
        let matched = |rule: &&NtupleRule| rule.matched(source, destination) != Matched::No;
        let first = self.rules.iter().filter(matched).min_by_key(|rule| rule.location);
        match first.filter(|_| self.is_enabled) {
            None => Ruling::None,
            Some(rule) if rule.matched(source, destination) == Matched::Yes => Ruling::By(rule),
            Some(rule) => Ruling::Perhaps(rule),
        }
    }

    /// Locations at which a rule for one flow takes effect without replacing another's: that of a
    /// rule for this very flow, and free ones before all rules that are for more flows than this
    /// one.
    pub fn places_for(&self, source: SocketAddr, destination: SocketAddr) -> impl Iterator<Item = u32> {
        let flow = Some((source, destination));
        let others = self
            .rules
            .iter()
            .filter(|rule| rule.flow.is_none() && rule.matched(source, destination) != Matched::No);
        let end = others.map(|rule| rule.location).min();
        let end = end.unwrap_or(u32::MAX).min(self.places.unwrap_or(u32::MAX));
        let own = self.rules.iter().filter(|rule| rule.flow == flow).map(|rule| rule.location);
        let own = own.min().filter(|own| *own < end);
        let is_free = |place: &u32| !self.rules.iter().any(|rule| rule.location == *place);
        own.into_iter().chain((0..end).filter(is_free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "10.0.0.2:4420";
    const LOCAL: &str = "10.0.0.1:50001";

    fn end(address: &str, mask: &str, port: u16, port_mask: u16) -> MaskedEnd {
        MaskedEnd { address: address.parse().unwrap(), address_mask: mask.parse().unwrap(), port, port_mask }
    }

    /// A rule for all that comes from the ports that these bits of 4420 stand for.
    fn masked(location: u32, port_mask: u16) -> NtupleRule {
        let source = end("0.0.0.0", "0.0.0.0", 4420, port_mask);
        let destination = end("10.0.0.9", "255.255.255.0", 0, 0);
        NtupleRule { location, flow: None, queue: Some(2), scope: RuleScope::Masked { source, destination } }
    }

    fn ruling(rules: &[NtupleRule], is_enabled: bool) -> Result<Option<u32>, u32> {
        let ntuple = Ntuple { is_supported: true, is_enabled, rules: rules.to_vec(), ..Ntuple::default() };
        match ntuple.ruling(PEER.parse().unwrap(), LOCAL.parse().unwrap()) {
            Ruling::None => Ok(None),
            Ruling::By(rule) => Ok(Some(rule.location)),
            Ruling::Perhaps(rule) => Err(rule.location),
        }
    }

    #[test]
    fn the_rule_with_the_lowest_location_decides() {
        let flow = Some((PEER.parse().unwrap(), LOCAL.parse().unwrap()));
        let exact = NtupleRule { location: 5, flow, queue: Some(1), scope: RuleScope::Unknown };
        let unknown =
            |location| NtupleRule { location, flow: None, queue: Some(3), scope: RuleScope::Unknown };
        let udp = NtupleRule { scope: RuleScope::OtherProtocol, ..unknown(0) };
        let elsewhere = |rule: NtupleRule, source: MaskedEnd, destination: MaskedEnd| NtupleRule {
            scope: RuleScope::Masked { source, destination },
            ..rule
        };
        let any = end("0.0.0.0", "0.0.0.0", 0, 0);
        for (rules, expected) in [
            (vec![], Ok(None)),
            (vec![udp.clone()], Ok(None)),
            (vec![masked(7, 0xffff)], Ok(Some(7))),
            (vec![masked(7, 0xff00), exact.clone()], Ok(Some(5))),
            (vec![masked(3, 0xffff), exact.clone()], Ok(Some(3))),
            (vec![unknown(9), exact.clone()], Ok(Some(5))),
            (vec![unknown(4), exact, udp], Err(4)),
            (vec![elsewhere(unknown(1), end("0.0.0.0", "0.0.0.0", 443, 0xffff), any)], Ok(None)),
            (vec![elsewhere(unknown(1), any, end("10.0.1.1", "255.255.255.0", 0, 0))], Ok(None)),
            (vec![elsewhere(unknown(1), end("fd00::2", "::", 0, 0), any)], Ok(None)),
        ] {
            assert_eq!(ruling(&rules, true), expected, "{rules:?}");
            assert_eq!(ruling(&rules, false), Ok(None), "{rules:?}");
        }
    }

    #[test]
    fn a_rule_for_one_flow_comes_before_those_for_more() {
        let (peer, local): (SocketAddr, SocketAddr) = (PEER.parse().unwrap(), LOCAL.parse().unwrap());
        let places = |rules: &[NtupleRule], places| -> Vec<u32> {
            let ntuple = Ntuple { rules: rules.to_vec(), places, ..Ntuple::default() };
            ntuple.places_for(peer, local).take(3).collect()
        };
        let exact =
            NtupleRule { location: 1, flow: Some((peer, local)), queue: Some(1), scope: RuleScope::Unknown };
        let other = NtupleRule { location: 0, flow: Some((local, peer)), ..exact };
        assert_eq!(places(&[], None), [0, 1, 2]);
        assert_eq!(places(&[], Some(2)), [0, 1]);
        assert_eq!(places(&[other.clone(), exact.clone()], Some(4)), [1, 2, 3]);
        assert_eq!(places(&[other.clone(), masked(2, 0xffff)], None), [1]);
        assert_eq!(places(&[other, masked(1, 0xffff)], None), [0_u32; 0]);
        assert_eq!(places(&[masked(0, 0xffff), exact], None), [0_u32; 0], "its own does not decide");
    }
}
