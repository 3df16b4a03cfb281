package tune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
)

// UploadFiles copies files to the folder on every host where trials run: Jobs.Folder, or the home
// folder. On this machine there is nothing to do.
func (j *Jobs) UploadFiles(ctx context.Context, files ...string) error {
	if err := j.prepare(ctx); err != nil {
		return err
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", file)
		}
		if err != nil {
			return fmt.Errorf("tune: upload a file: %w", err)
		}
	}
	j.hostMu.Lock()
	j.files = append(j.files, files...) // hosts that come later get them, too
	j.hostMu.Unlock()
	all := j.hosts()
	errs := make([]error, len(all))
	var copying sync.WaitGroup
	for i, h := range all {
		copying.Go(func() { errs[i] = j.upload(ctx, h, files) })
	}
	copying.Wait()
	return errors.Join(errs...)
}

// upload copies files to one host.
func (j *Jobs) upload(ctx context.Context, h hosts.Host, files []string) error {
	m, err := j.remote.Dial(ctx, h)
	if err != nil {
		return fmt.Errorf("tune: upload files: %w", withoutLaunch{err})
	}
	defer m.Close()
	folder := ssh.Folder(j.Folder)
	_, err = m.Ask(ctx, agent.Question{MakeDir: folder})
	for _, file := range files {
		if err == nil {
			err = j.remote.Copy(ctx, m, file, folder)
		}
	}
	if err != nil {
		return fmt.Errorf("tune: upload files: %w", withoutLaunch{err})
	}
	return nil
}
