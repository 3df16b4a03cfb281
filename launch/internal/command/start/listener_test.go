package start

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
)

// The secret of a file wins over that of the environment, and no process that launch starts finds the
// latter.
func TestTheSharedSecretIsNotHandedOn(t *testing.T) {
	e := Environment{Log: slog.New(slog.DiscardHandler)}
	inEnvironment := dialin.NewSecret()
	t.Setenv(dialin.SecretVariable, inEnvironment.Encode())
	if got, path, err := sharedSecret("", e); err != nil || path != "" || got.Encode() != inEnvironment.Encode() {
		t.Errorf("without a file: path %q, %v, want the environment's secret", path, err)
	}
	if _, there := os.LookupEnv(dialin.SecretVariable); there {
		t.Errorf("%s is still set", dialin.SecretVariable)
	}
	file := filepath.Join(t.TempDir(), "secret")
	made, path, err := sharedSecret(file, e)
	if err != nil || path != file {
		t.Fatalf("with a file: path %q, %v, want %s", path, err, file)
	}
	os.Setenv(dialin.SecretVariable, inEnvironment.Encode())
	if got, _, err := sharedSecret(file, e); err != nil || got.Encode() != made.Encode() {
		t.Errorf("with a file that is there: %v, want its secret", err)
	}
	os.Setenv(dialin.SecretVariable, "no secret")
	if _, _, err := sharedSecret("", e); err == nil {
		t.Error("a variable that is no secret is taken")
	}
}
