"""A peer that is set up passes the cases of the protocol, as far as its manifest claims."""

from __future__ import annotations

import re

import pytest

from deltamark.harness.cli.main import main
from deltamark.harness.engines.peers import PEERS, peer

FAILED = r"^(.*?): FAILED"


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_may_claim_what_its_manifest_claims(name, capsys):
    each = peer(name)
    if not each.is_current:
        pytest.skip(f"make peer PEER={name}")
    wrong = each.manifest.wrong
    assert (main(["conformance", f"ENGINE={name}"]) == 0) == (not wrong)
    said = capsys.readouterr().out
    assert set(re.findall(FAILED, said, re.MULTILINE)) == wrong.keys()
    assert f"may claim {'nothing' if wrong else each.manifest.output}" in said.replace("claim: ", "claim ")
