package hostname

import "testing"

func TestParseReadsAHostAsItIsSpelled(t *testing.T) {
	for s, want := range map[string]Name{
		"d1":                  {Host: "d1"},
		"me@D1.example.:22":   {User: "me", Host: "D1.example.", Port: 22},
		"[fe80::1%eth0]:2222": {Host: "fe80::1%eth0", Port: 2222},
		"2001:DB8::1":         {Host: "2001:DB8::1"},
	} {
		got, err := Parse(s)
		if err != nil || got != want || got.String() != s {
			t.Errorf("%s: got %+v, %v, spelled %q, want %+v", s, got, err, got, want)
		}
	}
	for _, s := range []string{"", "-d1", "d1:0", "d1:x", "[d1", "[d1]2", "a b", "@d1", "1:2:3"} {
		if got, err := Parse(s); err == nil {
			t.Errorf("%q: got %+v, want an error", s, got)
		}
	}
}

func TestKeyIsTheSameForAllSpellings(t *testing.T) {
	for _, same := range [][2]string{{"D1.", "d1"}, {"2001:DB8::1", "2001:db8:0::1"}, {"me@d1:22", "me@D1:22"}} {
		a, errA := Parse(same[0])
		b, errB := Parse(same[1])
		if errA != nil || errB != nil || a.Key() != b.Key() {
			t.Errorf("%s and %s: got %+v and %+v, %v, %v, want the same", same[0], same[1], a.Key(), b.Key(), errA, errB)
		}
	}
	for _, other := range []string{"me@d1", "d1:22", "d2"} {
		a, _ := Parse("d1")
		if b, err := Parse(other); err != nil || a.Key() == b.Key() {
			t.Errorf("%s: got the key of d1, %v, want another", other, err)
		}
	}
}
