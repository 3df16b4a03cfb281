package tune

import (
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/plural"
)

// maxMissed is how many trials a text names.
const maxMissed = 12

// missed says for people what the deadline kept from being done; "" is nothing. total is how many
// trials there were to be; -1: no limit was known.
func missed(trials history, s *stops, total int) string {
	var stopped, left []int
	for _, t := range trials {
		switch {
		case t.State != Stopped || !strings.HasPrefix(t.Rule, deadlineRule):
		case t.Rule == s.halted:
			stopped = append(stopped, t.Number)
		default:
			left = append(left, t.Number)
		}
	}
	halted := strings.HasPrefix(s.halted, deadlineRule)
	deadline := s.halted
	var parts []string
	why := ""
	if before, after, ok := strings.Cut(s.noMore, ": "); ok {
		deadline, why = before, " ("+after+")"
	}
	n := total - len(trials)
	switch {
	case !halted && s.noMore == "" || halted && s.exhausted && s.noMore == "" || n == 0:
	case n < 0:
		parts = append(parts, "no further trials were started"+why)
	default:
		parts = append(parts, fmt.Sprintf("%d of %s %s not started%s", n, plural.Of(total, "trial"), were(n), why))
	}
	if len(left) > 0 {
		if deadline == "" || !strings.HasPrefix(deadline, deadlineRule) {
			deadline, _, _ = strings.Cut(trials[left[0]].Rule, ": ")
		}
		parts = append(parts, trialsText(left)+" "+were(len(left))+" not continued")
	}
	if len(stopped) > 0 {
		parts = append(parts, trialsText(stopped)+" "+were(len(stopped))+" stopped")
	}
	if len(parts) == 0 {
		return ""
	}
	return deadline + ": " + strings.Join(parts, "; ")
}

// were is the verb for n things.
func were(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// trialsText names trials: "trials 3, 7 and 5 more".
func trialsText(numbers []int) string {
	names := make([]string, min(len(numbers), maxMissed))
	for i := range names {
		names[i] = fmt.Sprint(numbers[i])
	}
	text := "trial"
	if len(numbers) > 1 {
		text = "trials"
	}
	text += " " + strings.Join(names, ", ")
	if more := len(numbers) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
