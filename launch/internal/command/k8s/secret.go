package k8s

import (
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/launch/internal/command"
)

// defaultSecretFile is where the secret of a job is kept: not in the current folder, which may be
// that of a repository.
func defaultSecretFile(namespace, name string) (string, error) {
	if _, err := os.Stat(oldSecretFile); err == nil {
		return oldSecretFile, nil
	}
	folder := secretFolder()
	if folder == "" {
		return "", command.Usagef("k8s: there is no folder for the secret, since HOME is not set; give --%s FILE", secretFileFlag)
	}
	if namespace != "" {
		name = namespace + "." + name
	}
	return filepath.Join(folder, name+".secret"), nil
}

// secretFolder is paragon/k8s in the user's folder for settings; "": there is none.
func secretFolder() string {
	settings, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(settings, "paragon", "k8s")
}
