//! Ports of other targets that serve the same subsystems, in the discovery log of one.

use std::time::Duration;

use engine::target::{Directives, OtherPort, PortConfig, TlsUse};
use nvme::discovery::{DISCOVERY_NQN, DiscoveryLog, SubsystemType, entry_flags, transport_requirements};
use nvme::log_page::LogPageId;

use crate::raw_host::{ENGINES, TestTarget};
use crate::target_live::{discovered, discoverer};

#[test]
fn ports_of_other_gateways_are_found_and_the_services_there_say_nothing_else() {
    let other = |id: u16, tls, is_known| {
        let mut port = PortConfig::new(id, ([0, 0, 0, 0], 4420 + id).into());
        (port.advertise, port.tls) = (Some("192.0.2.8".to_owned()), tls);
        OtherPort { port, is_known }
    };
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let mut host = discoverer(target.address(), DISCOVERY_NQN);
        let direct = |elsewhere: Vec<OtherPort>| {
            let directives = Directives { elsewhere, ..Directives::default() };
            let config = target.target().config();
            target.target().apply_directed(&config, &directives, Duration::ZERO).unwrap();
        };
        let others =
            vec![other(65, None, true), other(66, Some(TlsUse::Required), true), other(0, None, false)];
        direct(others.clone());
        let found = discovered(&mut host);
        let kinds: Vec<SubsystemType> = found.iter().map(|(kind, ..)| *kind).collect();
        let (nvm, own, referral) =
            (SubsystemType::NVM, SubsystemType::CURRENT_DISCOVERY, SubsystemType::REFERRAL);
        assert_eq!(kinds, [nvm, nvm, nvm, own, referral, referral, referral]);
        let page = host.admin.logged(LogPageId::DISCOVERY, 0, 16 << 10);
        let entries = DiscoveryLog::parse(&page).unwrap().entries;
        let found = |at: usize| {
            let entry = &entries[at];
            (entry.address(), entry.service_id(), entry.port_id.get(), entry.secure_channel())
        };
        let at = |service: &str, id, tls| ("192.0.2.8".to_owned(), service.to_owned(), id, tls);
        assert_eq!(found(1), at("4485", 65, transport_requirements::SECURE_CHANNEL_NOT_SPECIFIED));
        assert_eq!(found(2), at("4486", 66, transport_requirements::SECURE_CHANNEL_REQUIRED));
        // Only who says nothing of its ports has to be asked.
        let flags: Vec<u16> = entries[4..].iter().map(|entry| entry.flags.get()).collect();
        assert_eq!(flags, [entry_flags::DUPLICATE_INFORMATION, entry_flags::DUPLICATE_INFORMATION, 0]);
        direct(others[1..].to_vec());
        assert_eq!(discovered(&mut host).len(), 5, "one that is gone is not found");
    }
}
