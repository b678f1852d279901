// Package launch has everything of the development stack except the servers: the
// command line, the choice of ports, the lock and the keys of the data folder,
// the settings file and the report of addresses. It imports the standard library
// only, so its tests never link a server.
//
// A start goes through it in this order:
//
//	opts, err := launch.Parse(os.Args[1:])      // exit code 2 on bad flags
//	dir, err := launch.OpenDataDir(opts.DataDir) // one stack per folder
//	claim, err := opts.NATS.Claim(opts.IP)       // holds the port …
//	port := claim.Release()                      // … until its server binds it
//	keys, err := dir.Credentials()               // made once, then stored
//	err = launch.WriteEnvFile(opts.EnvFile, report.Env(keys))
//
// Errors that a user can fix are of type [*Error]: one line, one hint, one exit
// code. [PrintError] writes them.
package launch
