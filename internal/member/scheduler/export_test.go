package scheduler

// StartEtcd is for tests outside of the package.
var StartEtcd = startEtcd

// Some is some, for tests outside the package.
var Some = some
