package gputest

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestSixteenBitNumbersGoThereAndBack(t *testing.T) {
	for _, bfloat := range []bool{true, false} {
		for h := range 1 << 16 {
			x := Wide(bfloat, uint16(h))
			if x != x {
				continue
			}
			if got := Narrow(bfloat, x); got != uint16(h) {
				t.Fatalf("bfloat %t: %#04x is %v, and that %#04x", bfloat, h, x, got)
			}
		}
	}
	if got := Wide(false, Narrow(false, 1.0/3)); math.Abs(float64(got)-1.0/3) > 1e-4 {
		t.Errorf("a third in float16 is %v", got)
	}
}

func TestARowOfNoNumberIsOneThatFails(t *testing.T) {
	text := Row{Name: "x", Status: OK, Value: math.NaN(), Detail: "two\nlines"}.Text()
	if !strings.Contains(text, `"status":"FAIL"`) || !strings.Contains(text, "NaN") || strings.Contains(text, "\n") {
		t.Errorf("got %s, want a row that fails and says NaN, on one line", text)
	}
}

func TestWorseKeepsWhatIsNoNumber(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		value, worst float64
		want         bool
	}{{1, 2, false}, {2, 1, true}, {1, 1, false}, {nan, 1, true}, {1, nan, false}, {nan, nan, false}} {
		if got := Worse(c.value, c.worst); got != c.want {
			t.Errorf("Worse(%v, %v) is %t, want %t", c.value, c.worst, got, c.want)
		}
	}
}

func TestMarginLeavesHalfAtLeast(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{2 * time.Second: time.Second, 10 * time.Second: 3 * time.Second, time.Minute: 6 * time.Second} {
		if got := Margin(limit); got != want {
			t.Errorf("of %v: got %v, want %v", limit, got, want)
		}
	}
}

// A quiet is a test whose failure is only noted.
type quiet struct {
	testing.TB
	failed bool
}

func (q *quiet) Helper() {}
func (q *quiet) Fail()   { q.failed = true }

func TestTheWorstOfEachNameIsTheRow(t *testing.T) {
	current = &check{}
	defer func() { current = nil }()
	q := &quiet{TB: t}
	for _, v := range []float64{0.5, 0.75, 0.25} {
		Within(q, ": loss", v, 1, "x", "")
		Within(q, ": gradient", v/2, 1, "x", "")
	}
	if r := current.rows; q.failed || len(r) != 2 || r[0].Value != 0.75 || r[1].Value != 0.375 || r[0].Status != OK {
		t.Errorf("failed is %t, and rows are %+v: want the largest of two names", q.failed, r)
	}
	for _, v := range []float64{math.NaN(), 0.1} {
		Within(q, ": loss", v, 1, "x", "")
	}
	if r := current.rows[0]; !q.failed || r.Status != Fail || r.Value == r.Value {
		t.Errorf("failed is %t, and the row %+v: want one that fails and is no number", q.failed, r)
	}
}
