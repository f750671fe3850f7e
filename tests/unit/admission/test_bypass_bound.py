from inference.admission.bypass_bound import MAX_BYPASSES, BypassBound


def test_after_32_turns_of_others_the_longest_waiting_one_is_the_only_candidate():
    bound: BypassBound[str] = BypassBound()
    bound.join("patient")
    for turn in range(MAX_BYPASSES):
        assert bound.starving() is None, turn
        bound.join("lucky")
        bound.take_turn("lucky")
        bound.leave("lucky")

    assert bound.starving() == "patient"
    assert bound.age("patient") == 32


def test_who_was_served_stands_last_again():
    bound: BypassBound[str] = BypassBound()
    for name in "abc":
        bound.join(name)
    bound.take_turn("a")

    assert list(bound) == ["b", "c", "a"]
    assert (bound.age("a"), bound.age("b")) == (0, 1)
    assert "b" in bound and "z" not in bound


def test_nobody_starves_where_nobody_is():
    bound: BypassBound[int] = BypassBound()
    assert bound.starving() is None
    assert len(bound) == 0
