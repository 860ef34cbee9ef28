// Operators of others whose pods KAI's integration suites look at, as one program that runs beside muster-world: their own
// controllers and their own webhooks, without what a pod in a cluster needs besides (leases, metrics, certificates from a
// Secret). hack/peers/kai/run builds it inside KAI's module, with the versions that KAI names.
package main

import (
	"context"
	"flag"
	"log"
	"sort"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// operators start one operator each, and return when it ended.
var operators = map[string]func(ctx context.Context, hooks string) error{
	"training-operator": trainingOperator,
	"kuberay":           kubeRay,
	"lws":               leaderWorkerSet,
	"knative":           knative,
}

func main() {
	hooks := flag.String("webhooks", "", "the operator's own manifest of webhooks")
	flag.Parse() // controller-runtime has added --kubeconfig
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	run, known := operators[flag.Arg(0)]
	if !known {
		var names []string
		for name := range operators {
			names = append(names, name)
		}
		sort.Strings(names)
		log.Fatalf("usage: operators [--webhooks FILE] %s", strings.Join(names, "|"))
	}
	if err := run(ctrl.SetupSignalHandler(), *hooks); err != nil {
		log.Fatal(err)
	}
}
