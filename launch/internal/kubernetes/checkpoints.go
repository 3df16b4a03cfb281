package kubernetes

import (
	"errors"
	"path"
	"strings"
)

// checkpointFlag is the flag of worker programs for the folder of checkpoints, as the examples have
// it. One dash does as well.
const checkpointFlag = "--checkpoint-dir"

// CheckpointDir is the folder that the command names for checkpoints, by that flag; "": it names
// none.
func CheckpointDir(command []string) string {
	for i, word := range command {
		name, value, inOne := strings.Cut(word, "=")
		if name != checkpointFlag && "-"+name != checkpointFlag {
			continue
		}
		if !inOne && i+1 < len(command) {
			value = command[i+1]
		}
		return value
	}
	return ""
}

// checkpointFolder is the folder for checkpoints, and why no pod can write there. Below /tmp, where
// each pod has a folder of its own, it can: see Lost.
func (c *Config) checkpointFolder() (folder string, bad error) {
	folder = CheckpointDir(c.Command)
	if folder == "" || strings.Contains(folder, "://") || inTmp(folder) {
		return folder, nil
	}
	switch v := c.volumeAt(folder); {
	case v == nil:
		return folder, errors.New("no volume is mounted there, and the root file system of the pods is read-only")
	case v.ReadOnly:
		return folder, errors.New("the volume of --pvc there is read-only")
	}
	return folder, nil
}

// volumeAt is the volume that a path lies on, the innermost one where volumes are mounted in each
// other; nil: on none.
func (c *Config) volumeAt(file string) (at *Volume) {
	file = path.Clean(file)
	for i := range c.Volumes {
		v := &c.Volumes[i]
		if (file == v.Path || strings.HasPrefix(file, v.Path+"/")) && (at == nil || len(v.Path) > len(at.Path)) {
			at = v
		}
	}
	return at
}

// Lost reports whether checkpoints are lost with the pod that wrote them.
func (c *Config) Lost() bool {
	folder := CheckpointDir(c.Command)
	return folder != "" && !strings.Contains(folder, "://") && inTmp(folder)
}

// inTmp reports whether a path is in the folder for temporary files, in which commands start.
func inTmp(folder string) bool {
	if !path.IsAbs(folder) {
		folder = path.Join(tmpPath, folder)
	}
	folder = path.Clean(folder)
	return folder == tmpPath || strings.HasPrefix(folder, tmpPath+"/")
}
