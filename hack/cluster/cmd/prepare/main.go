// Prepare writes the files that a test cluster starts from: certificates, kubeconfigs and the JobSet
// set-up, and images. It also finds free ports. The scripts in hack/cluster call it; it talks to no server.
package main

import (
	"fmt"
	"os"
	"strconv"
)

const usage = `usage:
  prepare ports COUNT                        print COUNT free loopback ports, one line
  prepare certificates DIR                   write a CA and all certificates, unless DIR has them
  prepare kubeconfigs DIR URL                write DIR/NAME.kubeconfig for each client certificate in DIR
  prepare jobset MANIFESTS RUN PORT          write RUN/jobset/{cluster.yaml,webhooks.yaml,config.yaml}
  prepare image OUT NAME PROGRAM FILE...     write an image as a tar file; FILE is SOURCE:TARGET or =LINK:TARGET
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "ports":
		count, err := strconv.Atoi(args[1])
		if err != nil || count < 1 {
			return fmt.Errorf("the number of ports is %q, want 1 or more", args[1])
		}
		return printFreePorts(count)
	case len(args) == 2 && args[0] == "certificates":
		return writeCertificates(args[1])
	case len(args) == 3 && args[0] == "kubeconfigs":
		return writeKubeconfigs(args[1], args[2])
	case len(args) == 4 && args[0] == "jobset":
		port, err := strconv.Atoi(args[3])
		if err != nil {
			return fmt.Errorf("the webhook port is %q, want a number", args[3])
		}
		return writeJobSet(args[1], args[2], port)
	case len(args) >= 5 && args[0] == "image":
		return writeImage(args[1], args[2], args[3], args[4:])
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
		return nil
	}
}
