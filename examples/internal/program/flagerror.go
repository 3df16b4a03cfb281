package program

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// ExplainFlag explains an error of package flag, which says what is wrong by its text only: for an
// unknown flag it names the one that was perhaps meant, for a wrong value the values that the flag
// takes. Other errors are returned as they are.
func ExplainFlag(flags []cli.Flag, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	value, unparsed := strings.CutSuffix(err.Error(), ": parse error")

	// The flag is a list.
	if numbers, _, ok := strings.Cut(err.Error(), ": strconv."); ok {
		value, unparsed = numbers, true
	}
	if !unknown && !unparsed {
		return err
	}
	const mostEdits = 2
	best, least := "", mostEdits+1
	for _, f := range flags {
		for _, n := range f.Names() {
			if unparsed && (strings.HasSuffix(value, " for flag -"+n) || strings.HasSuffix(value, " for -"+n)) {
				if values := valuesOf(f); values != "" {
					return fmt.Errorf("%s: want %s", value, values)
				}
				return err
			}
			edits := smetrics.WagnerFischer(n, name, 1, 1, 1)
			if unknown && 2*edits < len(n) && edits < least {
				best, least = n, edits
			}
		}
	}
	switch {
	case !unknown:
		return err
	case best == "":
		return errors.New("there is no flag -" + name)
	}
	return fmt.Errorf("there is no flag -%s; did you mean --%s?", name, best)
}

// valuesOf says in words which values a flag takes; it is empty where package flag has said it.
func valuesOf(f cli.Flag) string {
	switch f.(type) {
	case *cli.IntFlag, *cli.Int64Flag:
		return "a whole number"
	case *cli.UintFlag, *cli.Uint64Flag:
		return "a whole number, 0 or more"
	case *cli.Float64Flag:
		return "a number"
	case *cli.Float64SliceFlag:
		return "numbers, separated by commas"
	case *cli.DurationFlag:
		return "a time with its unit, such as 30s or 5m"
	case *cli.BoolFlag:
		return "true or false"
	}
	return ""
}
