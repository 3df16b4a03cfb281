package show

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// number is a float for a Table: nil if it is none.
func number(x float64) any {
	if math.IsNaN(x) {
		return nil
	}
	return x
}

// seconds is a time for a Table: nil if there is none.
func seconds(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return d.Seconds()
}

// paramText is parameters on one line, {lr: 0.01, optimizer: "sgd"}.
func paramText(p tune.Params) string {
	var b strings.Builder
	b.WriteByte('{')
	first := true
	for name, value := range p.All() {
		if !first {
			b.WriteString(", ")
		}
		first = false
		b.WriteString(name + ": " + valueText(value))
	}
	b.WriteByte('}')
	return b.String()
}

// valueText is a value for a person: five digits of a float, a text in quotes.
func valueText(value any) string {
	switch x := value.(type) {
	case float64:
		return strconv.FormatFloat(x, 'g', 5, 64)
	case string:
		return strconv.Quote(x)
	}
	return fmt.Sprint(value)
}

// cell is a parameter's value for a Table: a float with the digits that tell it from its
// neighbours, for a person.
func cell(value any) any {
	if x, ok := value.(float64); ok {
		return number(x)
	}
	return value
}

// firstLine is a text's first line, with a mark if more lines follow.
func firstLine(s string) string {
	line, _, cut := strings.Cut(s, "\n")
	if cut {
		line += " ..."
	}
	return line
}

// continuation says where a further attempt goes on from, and with which parameters if they are
// others now.
func continuation(e tune.Event) (text string) {
	switch {
	case e.Restore >= 0 && e.Donor != e.Trial:
		text = fmt.Sprintf(" from trial %d's checkpoint of step %d", e.Donor, e.Restore)
	case e.Restore >= 0:
		text = fmt.Sprintf(" from its checkpoint of step %d", e.Restore)
	default:
		text = " from the beginning"
	}
	if e.Params.Len() > 0 {
		text += ", now with " + paramText(e.Params)
	}
	return text
}
