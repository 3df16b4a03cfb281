package cluster

import "fmt"

// unusedVariables are variables of ps-lite and MXNet that have no effect in Paragon, and what to
// use instead.
var unusedVariables = []struct{ name, instead string }{
	{"MXNET_KVSTORE_BIGARRAY_BOUND", "the scheduler cuts and places arrays by bytes; there is no setting"},
	{"MXNET_KVSTORE_SLICE_THRESHOLD", "the scheduler cuts and places arrays by bytes; there is no setting"},
	{"MXNET_KVSTORE_REDUCTION_NTHREADS", "sums use vector instructions on the caller's thread; there is no setting"},
	{"MXNET_UPDATE_ON_KVSTORE", "use worker.Config.UpdateOnWorker"},
	{"DMLC_PS_VAN_TYPE", "use PARAGON_TRANSPORT=auto, unix or tcp"},
	{"PS_RESEND", "requests are always repeated until they are answered; there is no setting"},
	{"PS_RESEND_TIMEOUT", "requests are always repeated until they are answered; there is no setting"},
	{"PS_HEARTBEAT_INTERVAL", "use PARAGON_HEARTBEAT, such as 1s"},
	{"PS_HEARTBEAT_TIMEOUT", "use PARAGON_LEASE, such as 10s"},
}

// ForeignVariables returns a line for each variable of ps-lite and MXNet that is set and has no
// effect; the line says what to use.
func ForeignVariables(getenv func(string) string) []string {
	var lines []string
	for _, f := range unusedVariables {
		if v := getenv(f.name); v != "" {
			lines = append(lines, fmt.Sprintf("%s=%s has no effect in Paragon: %s", f.name, v, f.instead))
		}
	}
	return lines
}
