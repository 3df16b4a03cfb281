package kubernetes

import "testing"

// Where volumes are mounted in each other, the innermost one says whether a pod can write there.
func TestTheInnermostVolumeHoldsTheCheckpoints(t *testing.T) {
	data, checkpoints := Volume{Claim: "c", Path: "/data"}, Volume{Claim: "d", Path: "/data/ckpt"}
	for _, readOnly := range []bool{false, true} {
		data.ReadOnly, checkpoints.ReadOnly = !readOnly, readOnly
		for _, volumes := range [][]Volume{{data, checkpoints}, {checkpoints, data}} {
			c := Config{Command: []string{"/p", "-checkpoint-dir", "/data/ckpt/run"}, Volumes: volumes}
			if folder, bad := c.checkpointFolder(); folder != "/data/ckpt/run" || (bad != nil) != readOnly {
				t.Errorf("volumes %+v: got folder %q and error %v, want an error: %v", volumes, folder, bad, readOnly)
			}
		}
	}
}
