package jobpage

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/observe/page"
)

func TestCredentialsMakeLinksToThePage(t *testing.T) {
	const url = "http://127.0.0.1:8080/"
	credentials := append([]string{"PARAGON_SECRET=x"}, Credentials(url, page.NewKey())...)
	if got := Link(credentials); !strings.HasPrefix(got, url) || got == url {
		t.Errorf("got the link %q, want one to %s with a token", got, url)
	}
	for _, without := range [][]string{nil, {"PARAGON_SECRET=x"}, credentials[:2], {keyVariable + "=%", urlVariable + "=" + url}} {
		if got := Link(without); got != "" {
			t.Errorf("%q: got the link %q, want none", without, got)
		}
	}
}
