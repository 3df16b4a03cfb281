package tune

import (
	"fmt"
	"strings"
)

// loggedRules are the Go types of a study's rules, in the config of one that is read from its log
// alone.
type loggedRules struct{ suggester, scheduler string }

// typeOf is the Go type of a rule, or of otherwise if there is none.
func typeOf(rule, otherwise any) string {
	if rule == nil {
		rule = otherwise
	}
	return fmt.Sprintf("%T", rule)
}

// ruleName is a suggester's or scheduler's type for people.
func ruleName(rule, otherwise any) string { return strings.TrimPrefix(typeOf(rule, otherwise), "*") }
