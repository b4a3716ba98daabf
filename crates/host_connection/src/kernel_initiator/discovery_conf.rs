//! Lines of nvme-cli's discovery.conf: the options of one `nvme connect-all` each. Lines of others, and comments, stay.

use engine::address::{HostAddress, NetAddress};

use super::config_json::Wanted;

/// Path at which nvme-cli reads it.
pub const DISCOVERY_CONF: &str = "/etc/nvme/discovery.conf";

/// A line, as options and values.
pub struct DiscoveryLine {
    pub address: NetAddress,
    /// Names with hyphens, and what stands behind them.
    pub options: Vec<(&'static str, Option<String>)>,
}

impl DiscoveryLine {
    fn text(&self) -> String {
        let option = |(name, value): &(&str, Option<String>)| match value {
            Some(value) => format!("{name}={value}"),
            None => (*name).to_owned(),
        };
        self.options.iter().map(option).collect::<Vec<_>>().join(" ")
    }
}

/// The text of a file with this line; none where it has one for the address already.
pub fn with_line(text: Option<&str>, line: &DiscoveryLine) -> Option<String> {
    let text = text.unwrap_or_default();
    let wanted = Wanted { nqn: None, addresses: &[line.address] };
    if text.lines().any(|line| is_for(line, &wanted)) {
        return None;
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Some(format!("{text}{end}{}\n", line.text()))
}

/// The text of a file without the lines for these addresses, and how many there were.
pub fn without_lines(text: &str, wanted: &Wanted<'_>) -> (String, usize) {
    let (taken, left): (Vec<&str>, Vec<&str>) =
        text.split_inclusive('\n').partition(|line| is_for(line, wanted));
    (left.concat(), taken.len())
}

/// True if a line names the discovery service at one of these addresses.
fn is_for(line: &str, wanted: &Wanted<'_>) -> bool {
    if line.starts_with('#') {
        return false;
    }
    // As nvme-cli takes it apart.
    let words: Vec<&str> = line.split([' ', '=', '\n', '\t']).filter(|word| !word.is_empty()).collect();
    let value = |short: &str, long: &str| {
        let at = words.iter().position(|word| *word == short || *word == long)?;
        words.get(at + 1).copied()
    };
    let is_tcp = value("-t", "--transport").is_some_and(|transport| transport == "tcp");
    let traddr = value("-a", "--traddr").and_then(|traddr| traddr.parse::<HostAddress>().ok());
    // Its own default is that of discovery services.
    let service = value("-s", "--trsvcid").unwrap_or("8009").parse().unwrap_or(0);
    let address = traddr.and_then(|traddr| traddr.literal(service));
    is_tcp && address.is_some_and(|address| wanted.has_address(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: &str = "# Example:\n# -t tcp -a 10.0.0.2 -s 4420\n-t tcp -a 10.0.0.3 -s 4420 -i 4\n\
        --transport=tcp --traddr=10.0.0.4\n-t fc -a nn-0x1:pn-0x2\n";

    fn line(address: &str) -> DiscoveryLine {
        let address: NetAddress = address.parse().unwrap();
        DiscoveryLine {
            address,
            options: vec![
                ("--transport", Some("tcp".to_owned())),
                ("--traddr", Some(address.ip().to_string())),
                ("--trsvcid", Some(address.port().to_string())),
                ("--hdr-digest", None),
            ],
        }
    }

    #[test]
    fn a_line_is_added_once() {
        let added = with_line(Some(THEIRS), &line("10.0.0.2:4420")).unwrap();
        let own = "--transport=tcp --traddr=10.0.0.2 --trsvcid=4420 --hdr-digest\n";
        assert_eq!(added, format!("{THEIRS}{own}"));
        assert!(with_line(Some(&added), &line("10.0.0.2:4420")).is_none());
        assert!(with_line(Some(&added), &line("10.0.0.2:4421")).is_some());
        for known in ["10.0.0.3:4420", "10.0.0.4:8009"] {
            assert!(with_line(Some(THEIRS), &line(known)).is_none(), "{known}");
        }
        assert_eq!(with_line(None, &line("10.0.0.2:4420")).unwrap(), own);
        assert_eq!(with_line(Some("-t tcp"), &line("10.0.0.2:4420")).unwrap(), format!("-t tcp\n{own}"));
    }

    #[test]
    fn lines_for_an_address_go() {
        let added = with_line(Some(THEIRS), &line("10.0.0.2:4420")).unwrap();
        let without = |addresses: &[&str]| {
            let addresses: Vec<NetAddress> = addresses.iter().map(|text| text.parse().unwrap()).collect();
            without_lines(&added, &Wanted { nqn: None, addresses: &addresses })
        };
        assert_eq!(without(&["10.0.0.2:0"]), (THEIRS.to_owned(), 1));
        assert_eq!(without(&["10.0.0.2:8009"]).1, 0);
        assert_eq!(without(&["10.0.0.3:4420", "10.0.0.4:8009"]).1, 2);
    }
}
