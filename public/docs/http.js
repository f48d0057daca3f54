// Shows the OpenAPI document of this server. Makes no request to any other server: the validator badge is off.
/* global SwaggerUIBundle */

/** Shows the operations that have every word of the search in tag, method, path or summary. */
const search = {
  fn: {
    opsFilter: (tags, phrase) => {
      const words = phrase.toLowerCase().split(/\s+/);
      const isFound = (tag) => (operation) => {
        const parts = [tag, operation.get('method'), operation.get('path'), operation.getIn(['operation', 'summary'])];
        const text = parts.join(' ').toLowerCase();
        return words.every((word) => text.includes(word));
      };
      return tags
        .map((tag, name) => tag.update('operations', (operations) => operations.filter(isFound(name))))
        .filter((tag) => tag.get('operations').size > 0);
    },
  },
};

SwaggerUIBundle({
  url: '/api/v1/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  filter: true,
  plugins: [search],
  onComplete: () => {
    const field = document.querySelector('.operation-filter-input');
    field.placeholder = 'Search, e.g. guest link';
    field.setAttribute('aria-label', 'Search');
  },
});
