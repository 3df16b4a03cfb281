package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The same words are judged by Kubernetes in schematest.
func TestWordsAreAcceptedThatKubernetesAccepts(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "words.txt"))
	if err != nil {
		t.Fatal(err)
	}
	accepts := map[string]func(string) bool{
		"name": isName, "label": isLabel, "label-key": isLabelKey, "label-value": isLabelValue, "amount": isAmount,
		"subdomain": func(word string) bool { return isSubdomain(word, maxSubdomain) },
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var kind, verdict, word string
		if _, err := fmt.Sscanf(line, "%s %s %q", &kind, &verdict, &word); err != nil || accepts[kind] == nil {
			t.Fatalf("words.txt: %q: %v, or the kind is not known", line, err)
		}
		if got := accepts[kind](word); got != (verdict == "yes") {
			t.Errorf("%s %q: accepted is %v, want %s", kind, word, got, verdict)
		}
	}
}
