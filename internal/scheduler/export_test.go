package scheduler

// StartEtcd is for tests outside of the package.
var StartEtcd = startEtcd
