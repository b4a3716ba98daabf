#!/usr/bin/env python3
"""Conversations of tlsfuzzer with a target's port that requires TLS: records, KeyUpdates, Finished
messages and hellos, each with the alert or the response that RFC 8446 requires.

Usage: tls-records.py TLSFUZZER ADDRESS PORT KEY-FILE HOSTNQN SUBSYSNQN [CONVERSATION]...

TLSFUZZER is a checkout of github.com/tlsfuzzer/tlsfuzzer; Python needs tlslite-ng in the version of
its requirements.txt. The key is one of SHA-256 (NVMeTLSkey-1:01:). Run by hand, since Debian has
neither.
"""

import base64
import hashlib
import hmac
import struct
import sys

TLSFUZZER, ADDRESS, PORT, KEY_FILE, HOST, SUBSYSTEM = sys.argv[1:7]
sys.path.insert(0, TLSFUZZER)

from tlsfuzzer.expect import (ExpectAlert, ExpectApplicationData, ExpectChangeCipherSpec, ExpectClose,
                              ExpectEncryptedExtensions, ExpectFinished, ExpectKeyUpdate, ExpectServerHello,
                              gen_srv_ext_handler_psk, srv_ext_handler_key_share, srv_ext_handler_supp_vers)
from tlsfuzzer.helpers import key_share_gen, psk_ext_gen, psk_ext_updater
from tlsfuzzer.messages import (AlertGenerator, ApplicationDataGenerator, ClientHelloGenerator, Connect,
                                FinishedGenerator, KeyUpdateGenerator, PlaintextMessageGenerator,
                                PopMessageFromList, RawMessageGenerator, RawSocketWriteGenerator,
                                SetMaxRecordSize, SetPaddingCallback, TCPBufferingDisable,
                                TCPBufferingEnable, TCPBufferingFlush, fuzz_encrypted_message, fuzz_message,
                                pad_handshake, split_message, truncate_handshake)
from tlsfuzzer.runner import Runner
from tlslite.constants import (AlertDescription as Alert, AlertLevel, CipherSuite, ContentType, ExtensionType,
                               GroupName, KeyUpdateMessageType, PskKeyExchangeMode)
from tlslite.extensions import (ClientKeyShareExtension, PskKeyExchangeModesExtension,
                                SupportedGroupsExtension, SupportedVersionsExtension)


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def derived(key, label, context):
    """HKDF-Extract without a salt, then HKDF-Expand-Label, of 32 bytes."""
    label = b"tls13 " + label
    info = struct.pack(">HB", 32, len(label)) + label + bytes([len(context)]) + context
    return mac(mac(bytes(32), key), info + b"\1")


with open(KEY_FILE, encoding="ascii") as file:
    CONFIGURED = base64.b64decode(file.read().split(":")[2])[:-4]
RETAINED = derived(CONFIGURED, b"HostNQN", HOST.encode())
DIGEST = base64.b64encode(mac(RETAINED, f"{HOST} {SUBSYSTEM} NVMe-over-Fabrics".encode())).decode()
IDENTITY = f"NVMe1R01 {HOST} {SUBSYSTEM} {DIGEST}".encode()
PSK = [(IDENTITY, derived(RETAINED, b"nvme-tls-psk", f"01 {DIGEST}".encode()), "sha256")]
IC_REQ = bytearray(struct.pack("<BBBBI", 0, 0, 128, 0, 128) + bytes(120))
IC_RESP_BYTES = 128


class Conversation:
    """Nodes of tlsfuzzer, one after the other."""

    def __init__(self):
        self.root = self.last = Connect(ADDRESS, int(PORT))

    def then(self, *nodes):
        for node in nodes:
            self.last = self.last.add_child(node)
        return self

    def hello(self, groups=("secp256r1",), psk=PSK, version=(3, 4), mode="psk_dhe_ke",
              cipher="TLS_AES_128_GCM_SHA256"):
        groups = [getattr(GroupName, group) for group in groups]
        extensions = {
            ExtensionType.supported_versions: SupportedVersionsExtension().create([version]),
            ExtensionType.key_share: ClientKeyShareExtension().create([key_share_gen(g) for g in groups]),
            ExtensionType.supported_groups: SupportedGroupsExtension().create(groups),
        }
        if mode:
            modes = [getattr(PskKeyExchangeMode, mode)]
            extensions[ExtensionType.psk_key_exchange_modes] = PskKeyExchangeModesExtension().create(modes)
        extensions[ExtensionType.pre_shared_key] = psk_ext_gen(psk)
        return self.then(ClientHelloGenerator([getattr(CipherSuite, cipher)], extensions=extensions,
                                              modifiers=[psk_ext_updater(psk)]))

    def server(self):
        extensions = {ExtensionType.supported_versions: srv_ext_handler_supp_vers,
                      ExtensionType.pre_shared_key: gen_srv_ext_handler_psk(PSK),
                      ExtensionType.key_share: srv_ext_handler_key_share}
        self.then(ExpectServerHello(extensions=extensions))
        encrypted = ExpectEncryptedExtensions()
        optional = self.last.add_child(ExpectChangeCipherSpec())
        optional.next_sibling = encrypted
        optional.add_child(encrypted)
        self.last = encrypted
        return self.then(ExpectFinished())

    def up(self, **hello):
        return self.hello(**hello).server().then(FinishedGenerator())

    def ic_req(self, *before):
        return self.then(*before, ApplicationDataGenerator(IC_REQ),
                         ExpectApplicationData(size=IC_RESP_BYTES))

    def bye(self):
        self.then(AlertGenerator(AlertLevel.warning, Alert.close_notify), ExpectAlert())
        self.last.next_sibling = ExpectClose()
        return self

    def alert(self, *expected):
        return self.then(ExpectAlert(AlertLevel.fatal, list(expected)), ExpectClose())


def up(**hello):
    return Conversation().up(**hello)


def sealed(kind, *content):
    return up().then(RawMessageGenerator(kind, bytearray(content)))


def in_clear(kind, *content):
    return up().then(PlaintextMessageGenerator(kind, bytearray(content)))


def key_update(value=0):
    return KeyUpdateGenerator(message_type=value)


def halves(parts):
    return split_message(key_update(), parts, 3)


def accepted():
    yield "an ICReq", up().ic_req().bye()
    for group in ("secp384r1", "x25519"):
        yield f"group {group}", up(groups=(group,)).ic_req().bye()
    padded = SetPaddingCallback(SetPaddingCallback.fixed_length_cb(1000))
    yield "padded records", up().ic_req(padded).bye()
    yield "records padded to the maximum", up().ic_req(SetPaddingCallback(SetPaddingCallback.fill_padding_cb)).bye()
    yield "a byte in each record", up().ic_req(SetMaxRecordSize(1)).bye()
    yield "records without data", up().ic_req(*[ApplicationDataGenerator(bytearray()) for _ in range(5)]).bye()
    yield "KeyUpdate", up().ic_req(key_update()).bye()
    wanted = ExpectKeyUpdate(KeyUpdateMessageType.update_not_requested)
    data = ApplicationDataGenerator(IC_REQ)
    yield "KeyUpdate, requested", up().then(key_update(1), data, wanted,
                                            ExpectApplicationData(size=IC_RESP_BYTES)).bye()
    parts = []
    yield "KeyUpdate in two records", up().ic_req(halves(parts), PopMessageFromList(parts)).bye()
    pieces = [IC_REQ[at:at + 8] for at in range(0, 128, 8)]
    many = [node for piece in pieces for node in (key_update(), ApplicationDataGenerator(piece))]
    yield "16 KeyUpdates among data", up().then(*many, ExpectApplicationData(size=IC_RESP_BYTES)).bye()
    yield "close_notify at once", up().bye()
    flight = [TCPBufferingEnable(), FinishedGenerator(), ApplicationDataGenerator(IC_REQ), TCPBufferingDisable(),
              TCPBufferingFlush(), ExpectApplicationData(size=IC_RESP_BYTES)]
    yield "Finished and data in one segment", Conversation().hello().server().then(*flight).bye()


def refused_records():
    for at in (0, 5, -1, -16, -17):
        changed = fuzz_encrypted_message(ApplicationDataGenerator(IC_REQ), xors={at: 0x80})
        yield f"a changed bit at {at}", up().then(changed).alert(Alert.bad_record_mac)
    yield "padding alone", sealed(0, *bytes(20)).alert(Alert.unexpected_message)
    yield "an unknown content type", sealed(77, 1).alert(Alert.unexpected_message)
    yield "a sealed change_cipher_spec", sealed(ContentType.change_cipher_spec, 1).alert(Alert.unexpected_message)
    yield "an empty alert", sealed(ContentType.alert).alert(Alert.unexpected_message, Alert.decode_error)
    yield "an alert of three bytes", sealed(ContentType.alert, 1, 0, 0).alert(Alert.decode_error)
    yield "a second ClientHello", sealed(ContentType.handshake, 1, 0, 0, 4, 0, 0, 0, 0).alert(Alert.unexpected_message)
    for name, length in (("too much data", 1), ("too long a record", 300)):
        data = ApplicationDataGenerator(bytearray(2**14 + length))
        yield name, up().then(SetMaxRecordSize(2**14 + 1000), data).alert(Alert.record_overflow)
    either = (Alert.unexpected_message, Alert.bad_record_mac)
    yield "data in clear", in_clear(ContentType.application_data, *IC_REQ).alert(Alert.bad_record_mac)
    yield "an alert in clear", in_clear(ContentType.alert, 1, 0).alert(*either)
    yield "a handshake message in clear", in_clear(ContentType.handshake, 24, 0, 0, 1, 0).alert(*either)
    yield "a late change_cipher_spec", in_clear(ContentType.change_cipher_spec, 1).alert(Alert.unexpected_message)
    for length in (0, 10):
        record = RawSocketWriteGenerator(bytearray([23, 3, 3, 0, length]) + bytearray(length))
        yield f"a record of {length} bytes", up().then(record).alert(*either)


def refused_messages():
    yield "KeyUpdate of value 2", up().then(key_update(2)).alert(Alert.illegal_parameter)
    yield "KeyUpdate, cut off", up().then(truncate_handshake(key_update(), 1)).alert(Alert.decode_error)
    yield "KeyUpdate, padded", up().then(pad_handshake(key_update(), 3)).alert(Alert.decode_error,
                                                                               Alert.unexpected_message)
    data = ApplicationDataGenerator(IC_REQ)
    yield "KeyUpdate around data", up().then(halves([]), data).alert(Alert.unexpected_message)
    many = [key_update() for _ in range(200)]
    yield "200 KeyUpdates without data", up().then(*many).alert(Alert.unexpected_message)
    changed = fuzz_message(FinishedGenerator(), xors={-1: 1})
    yield "Finished, changed", Conversation().hello().server().then(changed).alert(Alert.decrypt_error)
    changed = fuzz_encrypted_message(FinishedGenerator(), xors={-1: 1})
    yield "Finished, badly sealed", Conversation().hello().server().then(changed).alert(Alert.bad_record_mac)


def refused_hellos():
    wrong = [(IDENTITY, bytes(32), "sha256")]
    yield "a wrong PSK", Conversation().hello(psk=wrong).alert(Alert.decrypt_error)
    unknown = [(b"unknown", PSK[0][1], "sha256")]
    yield "an unknown identity", Conversation().hello(psk=unknown).alert(Alert.unknown_psk_identity)
    missing = (Alert.missing_extension, Alert.handshake_failure)
    yield "no exchange mode", Conversation().hello(mode=None).alert(*missing)
    yield "psk_ke alone", Conversation().hello(mode="psk_ke").alert(*missing, Alert.illegal_parameter)
    failure = (Alert.handshake_failure, Alert.illegal_parameter)
    yield "TLS 1.2", Conversation().hello(version=(3, 3)).alert(Alert.protocol_version, *failure)
    yield "a cipher that NVMe lacks", Conversation().hello(cipher="TLS_CHACHA20_POLY1305_SHA256").alert(*failure)


def main():
    names, passed, failed = sys.argv[7:], 0, 0
    for group in (accepted, refused_records, refused_messages, refused_hellos):
        for name, conversation in group():
            if names and name not in names:
                continue
            try:
                Runner(conversation.root).run()
                passed += 1
            except Exception as error:  # The library raises every kind.
                failed += 1
                print(f"{name}: {error}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
