//! A page in the browser: opening it, asking it with expressions, pressing keys, pictures of it. It keeps out what is right.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::devtools::Browser;

/// A key with the numbers that DevTools wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    name: &'static str,
    code: u32,
    text: &'static str,
}

pub(crate) const TAB: Key = Key { name: "Tab", code: 9, text: "" };
pub(crate) const ENTER: Key = Key { name: "Enter", code: 13, text: "\r" };
pub(crate) const RIGHT: Key = Key { name: "ArrowRight", code: 39, text: "" };
pub(crate) const LEFT: Key = Key { name: "ArrowLeft", code: 37, text: "" };
pub(crate) const DOWN: Key = Key { name: "ArrowDown", code: 40, text: "" };
pub(crate) const UP: Key = Key { name: "ArrowUp", code: 38, text: "" };

/// The page.
pub(crate) struct Page<'a> {
    pub(crate) browser: &'a mut Browser,
}

impl Page<'_> {
    /// Listens to all that is worth a complaint.
    pub(crate) fn listen(&mut self) -> Result<(), String> {
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            self.browser.call(&format!("{domain}.enable"), &json!({}))?;
        }
        Ok(())
    }

    /// Opens a file and waits until it is loaded and drawn.
    pub(crate) fn open(&mut self, file: &Path) -> Result<(), String> {
        self.open_url(&url(file))
    }

    /// The same by an address.
    pub(crate) fn open_url(&mut self, url: &str) -> Result<(), String> {
        let before = self.browser.events().len();
        let opened = self.browser.call("Page.navigate", &json!({"url": url}))?;
        if let Some(error) = opened["errorText"].as_str() {
            return Err(format!("{url}: {error}"));
        }
        self.browser.wait_for("Page.loadEventFired", before)?;
        Ok(())
    }

    /// Sets the width of the window, as on a desktop or a telephone.
    pub(crate) fn set_width(&mut self, width: u32) -> Result<(), String> {
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.browser.call("Emulation.setDeviceMetricsOverride", &metrics).map(drop)
    }

    /// Sets the reader's preference, `light` or `dark`, and the medium, `screen` or `print`.
    pub(crate) fn set_media(&mut self, media: &str, scheme: &str) -> Result<(), String> {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.browser
            .call("Emulation.setEmulatedMedia", &json!({"media": media, "features": features}))
            .map(drop)
    }

    /// The value of an expression, which may be a promise.
    pub(crate) fn ask(&mut self, expression: &str) -> Result<Value, String> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.browser.call("Runtime.evaluate", &params)?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(format!("{} in `{expression}`", details["exception"]["description"])),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: Key) -> Result<(), String> {
        for kind in [if key.text.is_empty() { "rawKeyDown" } else { "keyDown" }, "keyUp"] {
            let event = json!({
                "type": kind, "key": key.name, "code": key.name, "windowsVirtualKeyCode": key.code,
                "text": if kind == "keyUp" { "" } else { key.text },
            });
            self.browser.call("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    /// Presses Tab until the element with the focus is what `condition` says of `element`.
    pub(crate) fn tab_to(&mut self, condition: &str) -> Result<(), String> {
        const TABS_MAX: usize = 500;
        let arrived = format!("(element => Boolean({condition}))(document.activeElement)");
        for _ in 0..TABS_MAX {
            self.press(TAB)?;
            if self.ask(&arrived)? == json!(true) {
                return Ok(());
            }
        }
        Err(format!("{TABS_MAX} times Tab did not lead to where {condition}"))
    }

    /// The whole page as a PDF file's bytes.
    pub(crate) fn print(&mut self) -> Result<Vec<u8>, String> {
        let printed = self.browser.call("Page.printToPDF", &json!({"preferCSSPageSize": false}))?;
        decoded(&printed)
    }

    /// Writes a picture of the whole page.
    pub(crate) fn photograph(&mut self, file: &Path) -> Result<(), String> {
        let params = json!({"format": "png", "captureBeyondViewport": true});
        let taken = self.browser.call("Page.captureScreenshot", &params)?;
        std::fs::write(file, decoded(&taken)?).map_err(|error| format!("{}: {error}", file.display()))
    }
}

/// The bytes that DevTools answers with.
fn decoded(answer: &Value) -> Result<Vec<u8>, String> {
    let text = answer["data"].as_str().unwrap_or_default();
    BASE64_STANDARD.decode(text).map_err(|error| format!("the browser's data is not base64: {error}"))
}

/// A file's address. What a path may have and an address may not is written with a percent sign.
pub(crate) fn url(file: &Path) -> String {
    let mut url = "file://".to_owned();
    for byte in file.display().to_string().bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_plain() {
        assert_eq!(url(Path::new("/a b/ü.html")), "file:///a%20b/%C3%BC.html");
    }
}
