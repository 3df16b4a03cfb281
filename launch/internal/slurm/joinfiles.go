package slurm

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/files/lockfile"
	"github.com/paragon-train/paragon/launch/internal/addressfile"
)

// JoinFiles are the secret and the addresses of a job on Slurm, in its folder: agents of other
// jobs join with them.
//
// The folder's lock is held while launch lives, so whoever can take it may remove the files.
type JoinFiles struct {
	folder string
	lock   *os.File
}

// JoinFolder is the folder of a job, below the home directory, which the nodes of a cluster share.
func JoinFolder(job string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("launch: the folder of Slurm job %s: %w", job, err)
	}
	return filepath.Join(home, ".paragon", "slurm", job), nil
}

// lockName is the name of the lock in a job's folder.
const lockName = "lock"

// MakeJoinFiles writes the files of a job. The first launch of an allocation that runs has them.
func MakeJoinFiles(job, secret string, addresses []string) (*JoinFiles, error) {
	folder, err := JoinFolder(job)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(folder, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockfile.Take(lock); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	f := &JoinFiles{folder, lock}
	path := filepath.Join(folder, SecretFile)

	// The file may be that of a launch that was killed.
	os.Remove(path)
	err = os.WriteFile(path, []byte(secret+"\n"), 0o600)
	if err == nil {
		err = addressfile.Write(filepath.Join(folder, AddressFile), addresses)
	}
	if err != nil {
		f.Remove()
		return nil, err
	}
	return f, nil
}

// Remove removes the files; nil has none.
func (f *JoinFiles) Remove() {
	if f != nil {
		os.RemoveAll(f.folder)
		f.lock.Close()
	}
}

// SweepJoinFiles removes the files of this job's launch if it was killed.
func SweepJoinFiles() {
	job := os.Getenv("SLURM_JOB_ID")
	folder, err := JoinFolder(job)
	if job == "" || err != nil {
		return
	}
	lock, err := os.Open(filepath.Join(folder, lockName))
	if err != nil {
		return
	}
	defer lock.Close()
	if lockfile.Free(lock) {
		os.RemoveAll(folder)
	}
}
