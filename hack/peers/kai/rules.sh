# What is changed in a copy of KAI's module: how long its suites wait for one thing to happen. Their connection is a kubeconfig,
# so nothing else has to be replaced; assertions are never touched.
file=test/e2e/modules/wait/watcher/watcher.go
grep -q 'FlowTimeout = 5 \* time.Minute' "$file"
sed -i 's/FlowTimeout = 5 \* time.Minute/FlowTimeout = 150 * time.Second/' "$file"
