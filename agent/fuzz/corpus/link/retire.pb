"D>
$0a0b0c0d-0000-4000-8000-000000000001tablesranktable.json