from hooks.outbound.signatures import signature


def test_a_signature_depends_on_all_of_it():
    made = {
        signature(b"a", secret="x", unix_s=1),
        signature(b"b", secret="x", unix_s=1),
        signature(b"a", secret="y", unix_s=1),
        signature(b"a", secret="x", unix_s=2),
    }

    assert len(made) == 4
