package schematest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The names, labels and amounts that launch k8s accepts, and no others, are right for Kubernetes.
func TestKubernetesAcceptsTheSameWords(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "testdata", "words.txt"))
	if err != nil {
		t.Fatal(err)
	}
	complaints := map[string]func(string) []string{
		"name": validation.IsDNS1035Label, "label": validation.IsDNS1123Label, "subdomain": validation.IsDNS1123Subdomain,
		"label-key": validation.IsQualifiedName, "label-value": validation.IsValidLabelValue,
		"amount": func(word string) []string {
			if q, err := resource.ParseQuantity(word); err != nil || q.Sign() <= 0 {
				return []string{fmt.Sprintf("%v %v", q, err)}
			}
			return nil
		},
	}
	words := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var kind, verdict, word string
		if _, err := fmt.Sscanf(line, "%s %s %q", &kind, &verdict, &word); err != nil || complaints[kind] == nil {
			t.Fatalf("words.txt: %q: %v, or the kind is not known", line, err)
		}
		words++
		if errs := complaints[kind](word); (len(errs) == 0) != (verdict == "yes") {
			t.Errorf("%s %q: Kubernetes says %q, want %s", kind, word, errs, verdict)
		}
	}
	if words < 100 {
		t.Errorf("there are %d words, want at least 100", words)
	}
}
