package options

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
)

func TestFlagsOfALauncherThatListensAreChecked(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if _, _, err := dialin.ReadOrMakeSecret(secret); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, want string }{
		{"--agents 2 p", "--agents is about agents that dial in; give --launcher agents, too"},
		{"--secret-file x p", "--secret-file belongs to --listen ADDRESS"},
		{"--address-file x p", "--address-file belongs to --listen ADDRESS"},
		{"--listen :0 p", "--listen needs a secret, which launch ctl on other machines must have, too: give --secret-file FILE"},
		{"--listen 4000 --secret-file " + secret + " p", `--listen "4000": want host:port`},
	} {
		if _, err := read(append([]string{"-n", "1"}, strings.Fields(tc.args)...)...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("launch %s: %v, want %s", tc.args, err, tc.want)
		}
	}
}
