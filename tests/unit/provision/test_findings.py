from collections.abc import Iterator

from skippy_site.provision.findings import Finding, Level, ok, problem, run_checks, warning


def test_a_line_says_how_much_it_matters_and_what_to_do() -> None:
    assert ok("Python", "3.11.2").line() == "ok       Python: 3.11.2"
    assert problem("disk", "full", "free some").line() == "problem  disk: full\n         → free some"
    assert warning("disk", "nearly full").line() == "warning  disk: nearly full"


def test_a_check_that_fails_is_a_finding_and_stops_no_other() -> None:
    def broken() -> Iterator[Finding]:
        yield ok("first", "fine")
        raise ValueError("two\nlines")

    found = list(run_checks([("first", broken), ("second", lambda: [ok("second", "fine too")])]))
    assert [finding.level for finding in found] == [Level.OK, Level.PROBLEM, Level.OK]
    assert found[1].text == "could not be checked (ValueError: two lines)"
