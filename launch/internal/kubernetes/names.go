package kubernetes

import (
	"regexp"
	"strings"
)

// The grammars of names, labels and amounts are those of Kubernetes' own validation.
const (
	labelGrammar     = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	labelTextGrammar = `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
	numberGrammar    = `\+?([0-9]+\.?[0-9]*|\.[0-9]+)`
	unitGrammar      = `([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?`
)

var (
	name      = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	label     = regexp.MustCompile(`^` + labelGrammar + `$`)
	subdomain = regexp.MustCompile(`^` + labelGrammar + `(\.` + labelGrammar + `)*$`)
	labelText = regexp.MustCompile(`^` + labelTextGrammar + `$`)
	amount    = regexp.MustCompile(`^` + numberGrammar + unitGrammar + `$`)
)

const (
	// maxLabel is the longest label of a DNS name, and the longest name or value of a label of
	// an object.
	maxLabel = 63
	// maxSubdomain is the longest name of most objects.
	maxSubdomain = 253
)

// isName reports whether Services, whose names are DNS labels with a letter first, may have the
// name.
func isName(text string) bool { return len(text) <= maxLabel && name.MatchString(text) }

// isLabel reports whether the text is one label of a DNS name.
func isLabel(text string) bool { return len(text) <= maxLabel && label.MatchString(text) }

// isSubdomain reports whether the text is labels with dots between them.
func isSubdomain(text string, longest int) bool {
	return len(text) <= longest && subdomain.MatchString(text)
}

// isLabelKey reports whether an object may have a label of this name, which may have a DNS name and
// a slash before it.
func isLabelKey(text string) bool {
	if prefix, rest, ok := strings.Cut(text, "/"); ok {
		if !isSubdomain(prefix, maxSubdomain) {
			return false
		}
		text = rest
	}
	return text != "" && isLabelValue(text)
}

func isLabelValue(text string) bool {
	return text == "" || len(text) <= maxLabel && labelText.MatchString(text)
}

// isAmount reports whether the text is an amount of processors or memory above 0.
func isAmount(text string) bool {
	number := amount.FindStringSubmatch(text)
	return number != nil && strings.ContainsAny(number[1], "123456789")
}
