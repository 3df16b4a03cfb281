package schedulernode

// StartEtcd is for tests outside of the package.
var StartEtcd = startEtcd
