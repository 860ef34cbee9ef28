// Devices is a device plugin for devices that are not there: it offers ids to the kubelet, and tells each
// container in its environment which it got. After a restart of the kubelet it registers again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// offers are the resources on the command line.
type offers []*offer

func (o *offers) String() string { return fmt.Sprint(len(*o), " resources") }

func (o *offers) Set(text string) error {
	resource, ids, found := strings.Cut(text, "=")
	if !found || !strings.Contains(resource, "/") || ids == "" {
		return errors.New("want VENDOR/NAME=ID,ID...")
	}
	*o = append(*o, newOffer(resource, strings.Split(ids, ",")))
	return nil
}

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	var all offers
	directory := flag.String("directory", plugin.DevicePluginPath, "the kubelet's directory for device plugins")
	flag.Var(&all, "offer", "a resource and the ids of its devices, VENDOR/NAME=ID,ID...; may be repeated")
	flag.Parse()
	if len(all) == 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *directory, all); err != nil {
		log.Fatal(err)
	}
}

// serve offers everything each time that the kubelet's socket is made anew, until it is told to end. A
// kubelet that starts removes every socket in the directory, ours too, so each time begins from nothing.
func serve(ctx context.Context, directory string, all offers) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := watcher.Add(directory); err != nil {
		return fmt.Errorf("cannot watch %s: %w", directory, err)
	}
	kubelet := filepath.Join(directory, filepath.Base(plugin.KubeletSocket))
	due := time.After(0)
	if _, err := os.Stat(kubelet); err != nil {
		log.Printf("waiting for %s", kubelet)
		due = nil
	}
	defer func() {
		for _, offer := range all {
			offer.withdraw()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			return fmt.Errorf("watching %s: %w", directory, err)
		case event := <-watcher.Events:
			if event.Name == kubelet && event.Has(fsnotify.Create) {
				due = time.After(0)
			}
		case <-due:
			due = nil
			for _, offer := range all {
				if err := offer.register(ctx, directory, kubelet); err != nil {
					log.Printf("%s: %v; trying again", offer.resource, err)
					due = time.After(time.Second)
				}
			}
		}
	}
}
