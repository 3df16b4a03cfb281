package jsonline

import (
	"math"
	"slices"
	"testing"
	"time"
)

// What is written is read again, to the bit.
func TestWordsStayTheSameThroughALine(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 120, time.UTC)
	numbers := []float64{0, 0.1, -1e300, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}
	texts := []string{"plain", "a \"quoted\" one\n", "\x00\x1f\x7f\\", "é and 世界"}
	var b []byte
	b = AppendInts(b, "ints=", []int{-3, 0, 7})
	for _, x := range numbers {
		b = AppendNumber(append(b, ' '), x)
	}
	b = AppendTexts(b, " texts=", texts)
	b = AppendText(b, " nothing=", "")
	b = at.AppendFormat(append(b, ' '), time.RFC3339Nano)

	var s Scanner
	s.Reset(b)
	s.Want("ints=")
	if got := s.Ints(); !slices.Equal(got, []int{-3, 0, 7}) {
		t.Errorf("got the integers %v", got)
	}
	for _, want := range numbers {
		s.Want(" ")
		if got := s.Number(); math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if got := s.Texts(" texts="); !slices.Equal(got, texts) {
		t.Errorf("got %q, want %q", got, texts)
	}
	if got := s.Text(" nothing="); got != "" {
		t.Errorf("got %q for a key that is not there", got)
	}
	s.Want(" ")
	if got := s.Time(); !got.Equal(at) {
		t.Errorf("got %v, want %v", got, at)
	}
	if s.More() || s.Err() != nil {
		t.Errorf("%q is left, error %v", s.Rest(), s.Err())
	}
}

// What could be written in a shorter or another way is not taken.
func TestASecondWayToWriteAWordIsAnError(t *testing.T) {
	number := func(s *Scanner) { s.Number() }
	text := func(s *Scanner) { _ = s.String() }
	for line, read := range map[string]func(*Scanner){
		"1.0":                    number,
		"+1":                     number,
		"1e+2":                   number,
		"-0":                     func(s *Scanner) { s.Int() },
		"007":                    func(s *Scanner) { s.Uint() },
		"0":                      func(s *Scanner) { s.Nonzero() },
		`"NaN"`:                  func(s *Scanner) { s.NotNaN() },
		`"\u0041"`:               text,
		`"no end`:                text,
		"2026-03-01T12:00:00.0Z": func(s *Scanner) { s.Time() },
	} {
		var s Scanner
		s.Reset([]byte(line))
		if read(&s); s.Err() == nil {
			t.Errorf("%s was taken", line)
		}
	}
}
