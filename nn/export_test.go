package nn

// MachineMemory is machineMemory.
var MachineMemory = machineMemory
