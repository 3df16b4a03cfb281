package plural

import "testing"

func TestOneIsSingular(t *testing.T) {
	for n, want := range []string{"0 workers", "1 worker", "2 workers"} {
		if got := Of(n, "worker"); got != want {
			t.Errorf("Of(%d): got %q, want %q", n, got, want)
		}
	}
}
