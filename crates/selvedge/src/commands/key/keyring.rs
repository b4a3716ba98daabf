//! Keys in the kernel (keyrings(7)): the keyring with a name, and a key that is added to it.

use std::ffi::CString;
use std::fs;
use std::io;

/// File in which the kernel lists the keys that this process may see.
const KEYS: &str = "/proc/keys";

/// The number of a keyring: one of those that each process has, a number itself, or one that has this name.
///
/// # Errors
/// That there is none, and what to do.
pub(super) fn find(name: &str) -> Result<i32, String> {
    let special = match name {
        "@t" => libc::KEY_SPEC_THREAD_KEYRING,
        "@p" => libc::KEY_SPEC_PROCESS_KEYRING,
        "@s" => libc::KEY_SPEC_SESSION_KEYRING,
        "@u" => libc::KEY_SPEC_USER_KEYRING,
        "@us" => libc::KEY_SPEC_USER_SESSION_KEYRING,
        _ => 0,
    };
    if special != 0 {
        return Ok(special);
    }
    let number = match name.strip_prefix("0x") {
        Some(digits) => i32::from_str_radix(digits, 16).ok(),
        None => name.parse().ok(),
    };
    if let Some(number) = number.filter(|number| *number > 0) {
        return Ok(number);
    }
    let keys = fs::read_to_string(KEYS).map_err(|error| format!("{KEYS} cannot be read: {error}"))?;
    in_list(&keys, name).ok_or_else(|| {
        let hint = if name == ".nvme" { "; `modprobe nvme-keyring`, as root, makes it" } else { "" };
        format!("there is no keyring {name} that this user can see{hint}")
    })
}

/// The keyring with this name in what the kernel shows: number, flags, uses, expiry, permissions, user, group, type,
/// description.
fn in_list(keys: &str, name: &str) -> Option<i32> {
    let is_it = |line: &&str| {
        let mut fields = line.split_whitespace().skip(7);
        fields.next() == Some("keyring")
            && fields.next().is_some_and(|field| field.trim_end_matches(':') == name)
    };
    let line = keys.lines().find(is_it)?;
    i32::from_str_radix(line.split_whitespace().next()?, 16).ok()
}

/// Adds a key of this type and name, or gives the one that has that name another content; its number.
///
/// # Errors
/// Why the kernel does not take it.
#[allow(unsafe_code, reason = "no library here has add_key(2)")]
pub(super) fn add((kind, name): (&str, &str), content: &[u8], keyring: i32) -> Result<i32, String> {
    let text = |text: &str| CString::new(text).map_err(|_| format!("{text:?} has a zero byte"));
    let (kind_text, name_text) = (text(kind)?, text(name)?);
    // SAFETY: both texts end in a zero byte and outlive the call, as `content` does, whose length is given; the kernel copies
    // all three, and writes to none.
    let serial = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            kind_text.as_ptr(),
            name_text.as_ptr(),
            content.as_ptr(),
            content.len(),
            keyring,
        )
    };
    if serial >= 0 {
        // Serial numbers are positive 32-bit numbers.
        return Ok(serial as i32);
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::ENODEV) => format!(
            "the kernel does not know keys of type {kind}: those of type psk come with `modprobe nvme-keyring`, as root"
        ),
        Some(libc::EACCES | libc::EPERM) => format!("this user may not add keys to it: {error}"),
        Some(libc::EDQUOT) => format!("this user's quota of keys is used up: {error}"),
        _ => format!("the kernel does not take the key: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "\
0469c2bd I------     1 perm 1f030000     0     0 keyring   .dns_resolver: empty
197b565c I--Q---     1 perm 1f3f0000     0 65534 keyring   _uid_ses.0: 1
2a3b4c5d I--Q---     1 perm 1f3f0000     0     0 user      .nvme: 32
0b3e7a2d I------     1 perm 1f0b0000     0     0 keyring   .nvme: empty
0b3e7a2e I------     1 perm 1f0b0000     0     0 keyring   .nvme2: empty
";

    #[test]
    fn a_keyring_is_found_by_its_name() {
        assert_eq!(in_list(SHOWN, ".nvme"), Some(0x0b3e_7a2d));
        assert_eq!(in_list(SHOWN, "_uid_ses.0"), Some(0x197b_565c));
        for other in [".nvm", "nvme", "", "32"] {
            assert_eq!(in_list(SHOWN, other), None, "{other}");
        }
        assert_eq!((find("0x1f"), find("17")), (Ok(31), Ok(17)));
        assert_eq!(find("@s"), Ok(libc::KEY_SPEC_SESSION_KEYRING));
        assert!(find("no such keyring").unwrap_err().contains("no keyring"));
    }

    #[test]
    fn the_kernel_says_why_it_takes_no_key() {
        let unknown =
            add(("selvedge-no-type", "name"), &[1; 32], libc::KEY_SPEC_PROCESS_KEYRING).unwrap_err();
        // Where a container has no keyrings at all, it says that.
        assert!(
            unknown.contains("does not know keys of type") || unknown.contains("may not add"),
            "{unknown}"
        );
        assert!(
            add(("user", "a\0b"), &[1; 32], libc::KEY_SPEC_PROCESS_KEYRING)
                .unwrap_err()
                .contains("zero byte")
        );
    }
}
