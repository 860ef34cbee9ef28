package main

import (
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// writeKubeconfigs writes DIR/NAME.kubeconfig for every client, with all data inside the file, so that
// it can be copied anywhere.
func writeKubeconfigs(dir, url string) error {
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return err
	}
	for _, client := range clients {
		cert, err := os.ReadFile(filepath.Join(dir, client.name+".crt"))
		if err != nil {
			return err
		}
		key, err := os.ReadFile(filepath.Join(dir, client.name+".key"))
		if err != nil {
			return err
		}
		const cluster = "muster-cluster"
		// Byte slices become base64, which is what a kubeconfig wants.
		text, err := yaml.Marshal(map[string]any{
			"apiVersion":      "v1",
			"kind":            "Config",
			"current-context": cluster,
			"clusters": []any{map[string]any{
				"name":    cluster,
				"cluster": map[string]any{"server": url, "certificate-authority-data": ca},
			}},
			"contexts": []any{map[string]any{
				"name":    cluster,
				"context": map[string]any{"cluster": cluster, "user": client.name},
			}},
			"users": []any{map[string]any{
				"name": client.name,
				"user": map[string]any{"client-certificate-data": cert, "client-key-data": key},
			}},
		})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, client.name+".kubeconfig"), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
